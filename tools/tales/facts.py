"""What the model knows about the world: small tables of facts for questions."""

OPPOSITES = {
    "hot": "cold", "big": "small", "tall": "short", "fast": "slow", "happy": "sad", "light": "dark", "day": "night",
    "up": "down", "in": "out", "open": "closed", "full": "empty", "old": "young", "hard": "soft", "wet": "dry",
    "loud": "quiet", "rich": "poor", "strong": "weak", "early": "late", "good": "bad", "clean": "dirty", "near": "far",
    "high": "low", "left": "right", "first": "last", "sweet": "sour", "thick": "thin", "wide": "narrow", "yes": "no",
    "true": "false", "black": "white", "awake": "asleep", "brave": "afraid", "deep": "shallow", "heavy": "light",
    "start": "stop", "push": "pull", "win": "lose", "give": "take", "come": "go", "buy": "sell", "love": "hate",
    "always": "never", "more": "less", "inside": "outside", "above": "below", "before": "after", "summer": "winter",
    "north": "south", "east": "west", "sharp": "blunt", "rough": "smooth", "easy": "difficult", "cheap": "expensive",
}

COLOURS = {
    "the sky": "blue", "grass": "green", "snow": "white", "a banana": "yellow", "a carrot": "orange", "blood": "red",
    "the sun": "yellow", "coal": "black", "milk": "white", "a frog": "green", "a strawberry": "red",
    "a lemon": "yellow",
    "chocolate": "brown", "an elephant": "grey", "a pig": "pink", "a flamingo": "pink", "the sea": "blue",
    "a pumpkin": "orange", "a tomato": "red", "a crow": "black", "cheese": "yellow", "a swan": "white",
    "a leaf in summer": "green", "the night": "black", "a fire engine": "red", "a polar bear": "white", "salt": "white",
    "a cucumber": "green", "a cherry": "red", "a plum": "purple", "gold": "yellow", "a cloud": "white",
}

SOUNDS = {
    "dog": "woof", "cat": "meow", "cow": "moo", "duck": "quack", "sheep": "baa", "pig": "oink", "horse": "neigh",
    "rooster": "cock-a-doodle-doo", "frog": "ribbit", "bee": "buzz", "owl": "hoo hoo", "lion": "roar",
    "mouse": "squeak",
    "snake": "hiss", "hen": "cluck", "donkey": "hee-haw", "wolf": "awoo", "crow": "caw", "goose": "honk",
    "chick": "peep",
}

BABIES = {
    "cat": "kitten", "dog": "puppy", "cow": "calf", "sheep": "lamb", "horse": "foal", "pig": "piglet", "hen": "chick",
    "duck": "duckling", "goose": "gosling", "frog": "tadpole", "bear": "cub", "lion": "cub", "kangaroo": "joey",
    "goat": "kid", "deer": "fawn", "owl": "owlet", "swan": "cygnet", "butterfly": "caterpillar", "seal": "pup",
    "elephant": "calf", "rabbit": "kit",
}

HOMES = {
    "bird": "in a nest", "bee": "in a hive", "fox": "in a den", "rabbit": "in a burrow", "horse": "in a stable",
    "dog": "in a kennel", "pig": "in a sty", "spider": "in a web", "bear": "in a cave", "fish": "in the water",
    "cow": "in a barn", "hen": "in a coop", "mole": "under the ground", "bat": "in a cave", "beaver": "in a lodge",
    "camel": "in the desert", "penguin": "on the ice", "whale": "in the sea", "monkey": "in the jungle",
    "ant": "in an anthill", "snail": "in a shell", "squirrel": "in a tree", "wolf": "in a den",
    "lion": "on the savanna",
}

LEGS = {
    "dog": 4, "cat": 4, "horse": 4, "cow": 4, "sheep": 4, "pig": 4, "fox": 4, "bear": 4, "lion": 4, "mouse": 4,
    "frog": 4,
    "duck": 2, "hen": 2, "owl": 2, "goose": 2, "swan": 2, "robin": 2, "penguin": 2, "ant": 6, "bee": 6, "butterfly": 6,
    "ladybug": 6, "spider": 8, "snake": 0, "fish": 0, "worm": 0,
}

# Question: (full answer, the answer in a word or two)
FACTS = {
    "What do bees make?": ("Bees make honey.", "honey"),
    "What do cows give us?": ("Cows give us milk.", "milk"),
    "What do hens lay?": ("Hens lay eggs.", "eggs"),
    "What do sheep give us?": ("Sheep give us wool.", "wool"),
    "What do birds build?": ("Birds build nests.", "nests"),
    "What do spiders spin?": ("Spiders spin webs.", "webs"),
    "What do beavers build?": ("Beavers build dams.", "dams"),
    "What do rabbits like to eat?": ("Rabbits like to eat carrots.", "carrots"),
    "What do monkeys like to eat?": ("Monkeys like to eat bananas.", "bananas"),
    "What do pandas eat?": ("Pandas eat bamboo.", "bamboo"),
    "What do squirrels gather?": ("Squirrels gather nuts.", "nuts"),
    "What does a caterpillar turn into?": ("A caterpillar turns into a butterfly.", "a butterfly"),
    "What does a tadpole turn into?": ("A tadpole turns into a frog.", "a frog"),
    "What does an acorn grow into?": ("An acorn grows into an oak tree.", "an oak tree"),
    "What is frozen water called?": ("Frozen water is called ice.", "ice"),
    "What falls from the clouds?": ("Rain falls from the clouds.", "rain"),
    "What do plants need to grow?": ("Plants need water and light to grow.", "water and light"),
    "What shines at night?": ("The moon and the stars shine at night.", "the moon"),
    "What shines during the day?": ("The sun shines during the day.", "the sun"),
    "What do we see with?": ("We see with our eyes.", "eyes"),
    "What do we hear with?": ("We hear with our ears.", "ears"),
    "What do we smell with?": ("We smell with our nose.", "nose"),
    "What do we write with?": ("We write with a pencil.", "a pencil"),
    "What is bread made of?": ("Bread is made of flour.", "flour"),
    "What is cheese made of?": ("Cheese is made of milk.", "milk"),
    "What is a window made of?": ("A window is made of glass.", "glass"),
    "Where does the sun rise?": ("The sun rises in the east.", "in the east"),
    "Where does the sun set?": ("The sun sets in the west.", "in the west"),
    "How many days are in a week?": ("There are seven days in a week.", "seven"),
    "How many months are in a year?": ("There are twelve months in a year.", "twelve"),
    "How many hours are in a day?": ("There are twenty-four hours in a day.", "twenty-four"),
    "How many minutes are in an hour?": ("There are sixty minutes in an hour.", "sixty"),
    "How many seasons are there?": ("There are four seasons.", "four"),
    "How many fingers are on one hand?": ("There are five fingers on one hand.", "five"),
    "How many letters are in the alphabet?": ("There are twenty-six letters in the alphabet.", "twenty-six"),
    "How many colours does a rainbow have?": ("A rainbow has seven colours.", "seven"),
    "How many wheels does a bicycle have?": ("A bicycle has two wheels.", "two"),
    "How many wheels does a car have?": ("A car has four wheels.", "four"),
    "What is the largest animal?": ("The blue whale is the largest animal.", "the blue whale"),
    "What is the tallest animal?": ("The giraffe is the tallest animal.", "the giraffe"),
    "What is the fastest animal on land?": ("The cheetah is the fastest animal on land.", "the cheetah"),
    "Which season is the coldest?": ("Winter is the coldest season.", "winter"),
    "Which season is the warmest?": ("Summer is the warmest season.", "summer"),
    "Which season comes after winter?": ("Spring comes after winter.", "spring"),
    "Which season comes after summer?": ("Autumn comes after summer.", "autumn"),
    "Can a penguin fly?": ("No, a penguin cannot fly.", "no"),
    "Can a fish swim?": ("Yes, a fish can swim.", "yes"),
    "Can a horse fly?": ("No, a horse cannot fly.", "no"),
    "Is fire hot or cold?": ("Fire is hot.", "hot"),
    "Is ice hot or cold?": ("Ice is cold.", "cold"),
    "What planet do we live on?": ("We live on the Earth.", "the Earth"),
    "What is the capital of France?": ("The capital of France is Paris.", "Paris"),
    "What is the capital of Germany?": ("The capital of Germany is Berlin.", "Berlin"),
    "What is the capital of Italy?": ("The capital of Italy is Rome.", "Rome"),
    "What is the capital of Spain?": ("The capital of Spain is Madrid.", "Madrid"),
    "What is the capital of England?": ("The capital of England is London.", "London"),
    "What is the capital of Japan?": ("The capital of Japan is Tokyo.", "Tokyo"),
}

PLANTS = "tree flower rose tulip bush oak cactus fern daisy sunflower pine grass".split()
FRUITS = "apple banana pear cherry plum orange lemon grape peach strawberry".split()
VEHICLES = "car bus train ship boat bicycle tractor airplane rocket wagon".split()
TOOLS = "hammer shovel saw ladder broom needle".split()

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
LETTERS = "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z".split()

SIZES = """ant bee mouse frog rabbit cat dog sheep pony cow horse hippo elephant whale""".split()  # smallest first

RHYMES = """cat hat; dog log; mouse house; bee tree; star car; moon spoon; fox box; goat boat; king ring; snow crow;
bear chair; light night; cake lake; rain train; sun run; bed red; frog log; sheep sleep; ball wall; sky fly; book cook;
day play; nose rose; hill mill; duck truck; fish dish; sand hand; cold gold; pan man; bell shell; clock sock; pig wig"""
RHYMES = [tuple(pair.split()) for pair in RHYMES.replace("\n", " ").split(";")]

UNKNOWN = (
    "Who is the president of $country?", "Who won the (football|chess|tennis) (game|match) (yesterday|last night)?",
    "What is the weather (like |)(today|tomorrow|in $country)?", "What time is it(| now)?", "What is the date today?",
    "How much does (a car|a house|a computer|gold) cost?", "Who wrote (that book|this song|the law)?",
    "What is the population of $country?", "What is the news today?", "How do I fix my (car|phone|computer)?",
    "Who invented (the telephone|the radio|the computer|paper)?", "What is quantum (physics|mechanics)?",
    "Explain (the stock market|relativity|chemistry|politics)(| to me).", "What is the meaning of life?",
    "Who is the (richest|tallest|oldest) person in the world?",
    "Write (some code|a program|a computer program)(| for me).",
    "How far is it to $country?", "What did I eat yesterday?", "Where do I live?", "How old am I?",
    "What is the stock price of (gold|oil|that company)?", "Translate this into (French|German|Latin).",
)
COUNTRIES = """France Spain Brazil Canada China India Japan Kenya Egypt Norway Sweden Poland Mexico Peru Chile Italy
Greece Turkey Iran Ghana Cuba Nepal Ireland Austria America Russia Australia""".split()
DO_NOT_KNOW = "I do not know that. I am a small model that tells stories and answers simple questions."
