"""The words the stories are made of: each noun with what it is like and what it can do."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Creature:
    """Someone who can be the hero of a story: an animal, a person or a being from fairy tales."""

    noun: str
    traits: tuple
    skills: tuple  # infinitives, "dig deep holes"
    is_person: bool = False
    gender: str = ""  # "she" or "he" where the noun itself says so


@dataclass(frozen=True)
class Thing:
    """An object: what it looked like, what it did (past tense) and what it is for (infinitive)."""

    noun: str
    looks: tuple
    did: tuple
    use: str
    is_small: bool  # small enough to be carried, lost and given away


@dataclass(frozen=True)
class Place:
    """Somewhere to live or to go; `at` and `to` hold the whole phrase: "in the forest", "to the forest"."""

    noun: str
    at: str
    to: str
    spots: tuple = field(default=())  # where something can hide there


# noun: traits; skills
ANIMALS_TEXT = """
fox: clever, quick, red, curious; find hidden paths, run without a sound, solve riddles
bear: big, gentle, sleepy, brown; climb tall trees, catch fish, carry heavy logs
rabbit: quick, shy, soft, small; hop over fences, dig tunnels, hear the smallest sound
mouse: tiny, brave, quiet, grey; squeeze through small holes, nibble through ropes, hide anywhere
owl: wise, old, quiet, white; see in the dark, fly without a sound, remember every story
cat: lazy, elegant, black, curious; climb roofs, land softly, move without a sound
dog: loyal, friendly, cheerful, brown; follow any smell, fetch sticks, guard the house
horse: strong, fast, proud, white; gallop like the wind, pull heavy carts, jump over fences
pony: small, stubborn, gentle, spotted; trot up steep hills, pull a little cart, find the way home
cow: calm, kind, slow, spotted; give fresh milk, walk for miles, wait patiently
pig: cheerful, muddy, clever, pink; find things under the ground, roll in the mud, smell apples from far away
sheep: woolly, soft, timid, white; keep others warm, count to ten, stay calm
goat: bold, hungry, bearded, stubborn; climb steep rocks, eat almost anything, balance on a ledge
duck: cheerful, noisy, yellow, round; swim across the pond, dive for weeds, waddle in a straight line
hen: busy, kind, round, speckled; lay fresh eggs, wake up early, find the best grains
rooster: proud, loud, colourful, vain; crow at sunrise, stand on the roof, wake everyone up
goose: bossy, loud, white, brave; fly very far, guard the yard, lead the way
swan: graceful, white, calm, elegant; glide over the water, dance on the lake, fly in a circle
frog: green, jumpy, funny, small; jump very high, sing at night, catch flies
turtle: slow, patient, old, wise; swim for hours, hide in a shell, never give up
snail: slow, tiny, patient, careful; climb smooth walls, carry a house, leave a silver trail
bee: busy, tiny, striped, cheerful; make sweet honey, find every flower, dance in the air
butterfly: colourful, light, gentle, pretty; flutter over the flowers, float on the wind, rest on a leaf
ant: tiny, strong, busy, clever; carry big crumbs, build tunnels, work with others
spider: quiet, patient, clever, tiny; spin a strong web, climb any wall, wait for hours
ladybug: red, tiny, spotted, lucky; count spots, fly over the grass, hide under a leaf
cricket: musical, small, green, cheerful; play music at night, jump far, sing in tune
wolf: grey, lonely, strong, wild; howl at the moon, run all night, follow tracks in the snow
deer: shy, graceful, gentle, quick; leap over streams, listen to the wind, run through the woods
squirrel: nimble, busy, red, cheeky; gather nuts, jump from branch to branch, find the tallest tree
hedgehog: prickly, small, shy, kind; roll into a ball, find mushrooms, see by starlight
badger: grumpy, striped, strong, honest; dig deep holes, keep a tidy home, find roots
beaver: hardworking, brown, clever, wet; build dams, cut down trees, swim under water
otter: playful, sleek, quick, happy; swim very fast, juggle stones, slide down the banks
mole: shy, small, soft, near-sighted; dig long tunnels, feel the ground shake, find the way in the dark
bat: small, shy, dark, quick; fly at night, hear tiny echoes, hang upside down
crow: clever, black, curious, loud; count shiny things, open boxes, remember faces
parrot: colourful, talkative, funny, green; copy any voice, tell jokes, whistle songs
penguin: round, funny, chubby, polite; slide on the ice, dive into cold water, walk in a line
seal: playful, round, shiny, clever; balance a ball, swim in cold water, clap in time
whale: huge, blue, gentle, old; sing under the sea, swim across the ocean, blow water high up
dolphin: friendly, quick, playful, clever; leap over the waves, find lost boats, whistle songs
octopus: shy, clever, purple, soft; hold eight things at once, change colour, open jars
crab: grumpy, red, small, careful; walk sideways, dig in the sand, pinch strings
fish: silver, quick, small, quiet; swim in circles, blow bubbles, hide among the weeds
shark: grey, hungry, misunderstood, fast; swim in deep water, smile with many teeth, smell far away things
elephant: huge, grey, gentle, clever; lift heavy trees, spray water, remember everything
lion: proud, golden, strong, sleepy; roar loudly, lead the others, sleep in the sun
tiger: striped, bold, strong, silent; creep through the grass, swim across rivers, leap far
monkey: cheeky, funny, quick, clever; swing through the trees, peel bananas, play tricks
giraffe: tall, gentle, spotted, quiet; reach the highest leaves, see very far, bend down low
zebra: striped, quick, stylish, shy; run in zigzags, hide in the tall grass, kick high
hippo: heavy, round, sleepy, happy; stay under water, yawn very wide, splash everyone
camel: patient, tall, thirsty, calm; cross the desert, carry heavy bags, go without water
kangaroo: jumpy, strong, brown, cheerful; jump very far, carry things in a pouch, box a little
koala: sleepy, soft, grey, cuddly; sleep all day, hold on tight, climb tall trees
panda: round, calm, soft, hungry; eat bamboo, roll down hills, sit very still
raccoon: sneaky, clever, masked, curious; open any lid, wash apples, search in the dark
donkey: stubborn, kind, grey, honest; carry heavy bags, walk on narrow paths, sing badly
lamb: little, woolly, playful, white; jump in the grass, follow the others, keep warm
kitten: tiny, playful, soft, curious; chase a string, climb curtains, purr softly
puppy: little, clumsy, happy, brown; chase leaves, dig in the garden, make friends quickly
chick: tiny, yellow, fluffy, brave; find small seeds, run in circles, peep loudly
lizard: green, quick, quiet, small; lie in the sun, run up walls, hide under stones
snake: long, quiet, green, shy; slide through the grass, climb trees, curl up small
worm: tiny, pink, humble, long; dig in soft soil, wriggle through mud, feel the rain
eagle: proud, strong, sharp-eyed, golden; fly above the clouds, see very far, ride the wind
robin: cheerful, small, red, brave; sing in the snow, find berries, build a nest
sparrow: little, brown, quick, friendly; build a nest, chirp all day, share crumbs
pigeon: plump, grey, calm, loyal; carry letters, find the way home, sit on statues
peacock: proud, colourful, elegant, loud; open a bright tail, dance slowly, walk like a king
moth: soft, grey, shy, small; fly to the light, rest on old coats, flutter in the dark
moose: tall, calm, brown, strong; walk through deep snow, swim across lakes, carry friends
"""

# noun[=she|he]: traits; skills
PEOPLE_TEXT = """
girl=she: curious, brave, cheerful, clever; draw maps, run fast, read hard words
boy=he: curious, brave, cheerful, shy; build kites, climb trees, whistle songs
princess=she: brave, kind, clever, young; ride fast horses, speak three languages, fight with wooden swords
prince=he: shy, kind, young, polite; play the flute, dance well, read old books
queen=she: wise, proud, kind, busy; lead the country, solve hard problems, listen to everyone
king=he: old, proud, fair, lonely; give long speeches, wear a heavy crown, settle arguments
knight: brave, clumsy, honest, loyal; ride into the dark, polish armour, keep every promise
wizard=he: old, forgetful, wise, mysterious; mix potions, turn stones into bread, speak with birds
witch=she: funny, old, kind, mysterious; fly on a broom, mix potions, find magic herbs
fairy=she: tiny, kind, shiny, playful; grant small wishes, fly through keyholes, glow in the dark
dragon: green, huge, friendly, lonely; breathe fire, fly over mountains, guard treasure
giant: huge, gentle, clumsy, lonely; step over rivers, lift houses, throw stones far
dwarf: small, strong, stubborn, bearded; dig for gold, forge iron, sing deep songs
elf: quick, quiet, clever, small; walk on snow, shoot arrows, talk to trees
mermaid=she: graceful, curious, young, gentle; swim with dolphins, sing over the waves, find pearls
pirate: loud, bold, funny, greedy; sail through storms, read treasure maps, climb the mast
robot: polite, shiny, careful, lonely; count very fast, lift heavy boxes, fix machines
ghost: shy, pale, friendly, lonely; float through walls, whisper softly, turn invisible
unicorn: white, gentle, magical, shy; heal small wounds, run over rainbows, make flowers grow
farmer: hardworking, friendly, patient, old; grow sweet carrots, drive a tractor, wake up early
baker: cheerful, round, kind, busy; bake fresh bread, make tall cakes, knead dough
sailor: brave, cheerful, weathered, strong; tie strong knots, read the stars, sail through storms
fisherman=he: patient, quiet, old, lucky; catch big fish, mend nets, read the waves
teacher: patient, kind, clever, funny; explain hard things, tell stories, draw on the board
doctor: careful, kind, calm, busy; mend broken legs, mix medicine, calm people down
painter: dreamy, messy, gentle, poor; mix bright colours, paint the sky, draw faces
musician: dreamy, cheerful, poor, gifted; play the violin, write songs, make people dance
gardener: patient, gentle, old, quiet; grow roses, trim hedges, talk to plants
shepherd: young, lonely, patient, gentle; count sheep, play the flute, find lost lambs
astronaut: brave, curious, calm, clever; fly to the moon, float in space, fix rockets
inventor: clever, messy, curious, dreamy; build strange machines, fix clocks, draw plans
clown: funny, sad, gentle, colourful; juggle balls, tell jokes, fall without getting hurt
grandmother=she: kind, old, wise, warm; bake apple pies, knit warm socks, tell old stories
grandfather=he: kind, old, funny, slow; carve wooden toys, tell old stories, fix anything
tailor: careful, small, clever, honest; sew fine coats, mend holes, measure well
carpenter: strong, careful, quiet, honest; build chairs, saw straight lines, carve wood
blacksmith: strong, loud, kind, honest; forge horseshoes, bend iron, mend swords
cook: cheerful, busy, round, loud; make hot soup, taste every spice, bake pies
miller: dusty, honest, poor, old; grind flour, listen to the wind, fix the mill
thief: quick, sorry, lonely, sly; open locks, hide in the dark, climb walls
traveller: tired, friendly, curious, quiet; read maps, tell stories, walk for days
postman=he: cheerful, quick, honest, friendly; deliver letters, remember every street, ride a bicycle
snowman=he: cold, round, cheerful, quiet; stand still all night, smile in the snow, catch snowflakes
scarecrow: quiet, lonely, friendly, thin; watch the field, stand in the rain, scare crows away
"""

# noun: looks; did; use; s or l (small or large)
THINGS_TEXT = """
lantern: old, golden, little, rusty; glowed softly, shone in the dark; light the way; s
candle: tall, white, little; burned with a warm flame, flickered gently; light the room; s
lamp: old, green, bright; shone brightly, made a warm circle of light; light the room; s
key: golden, rusty, tiny, silver; shone like gold, turned with a click; open a secret door; s
box: wooden, red, small, heavy; opened with a creak, rattled mysteriously; keep things safe; s
chest: heavy, old, wooden; opened with a creak, smelled of old wood; keep treasure safe; l
map: old, torn, secret; showed a long path, rustled in the wind; find the way; s
compass: shiny, old, brass; pointed to the north, trembled a little; find the way; s
boat: little, blue, wooden; rocked on the water, sailed smoothly; cross the water; l
ship: tall, old, proud; sailed over the waves, creaked in the wind; cross the sea; l
raft: simple, wooden, wobbly; floated slowly, bobbed up and down; cross the river; l
canoe: narrow, red, light; glided over the water, rocked a little; cross the lake; l
kite: red, blue, paper; danced in the wind, rose high into the sky; play in the wind; s
balloon: red, yellow, big; floated up and up, bobbed in the air; float into the sky; s
ball: red, round, bouncy; bounced away, rolled down the hill; play a game; s
drum: loud, little, red; boomed loudly, made a deep sound; make music; s
flute: silver, wooden, thin; sang sweetly, made a clear sound; make music; s
violin: old, brown, fine; sang sweetly, made a sad sound; make music; s
trumpet: loud, golden, shiny; rang out loudly, shone in the sun; make music; s
guitar: old, wooden, small; hummed softly, sounded warm; make music; s
piano: big, black, old; filled the room with music, sounded warm and deep; make music; l
bell: silver, little, old; rang clearly, tinkled in the wind; call everyone together; s
whistle: tin, small, shiny; made a sharp sound, could be heard far away; call for help; s
clock: old, tall, strange; ticked loudly, struck twelve; tell the time; s
watch: golden, tiny, old; ticked quietly, shone in the sun; tell the time; s
mirror: old, round, silver; showed a smiling face, sparkled in the sun; catch the sunlight; s
book: old, thick, blue; smelled of dust, was full of pictures; learn new things; s
letter: secret, folded, yellow; was written in blue ink, smelled of roses; send a message; s
pencil: short, red, sharp; scratched on the paper, drew fine lines; draw pictures; s
brush: soft, thin, wooden; left bright colours behind, was still wet with paint; paint pictures; s
feather: white, blue, soft; floated in the air, tickled a little; write a letter; s
shell: pink, smooth, white; sounded like the sea, shone in the sand; listen to the sea; s
pearl: white, shiny, round; shone like the moon, gleamed softly; make a necklace; s
stone: smooth, grey, round; sparkled in the sun, felt warm; build a wall; s
crystal: clear, blue, bright; sparkled in many colours, glowed softly; catch the light; s
coin: golden, silver, old; shone in the sun, rang on the floor; buy some bread; s
ring: golden, thin, magic; sparkled brightly, shone like the sun; keep a promise; s
crown: golden, heavy, paper; sparkled brightly, shone like the sun; look like a king; s
necklace: silver, fine, pretty; sparkled in the light, shone like stars; dress up; s
button: blue, round, tiny; shone like a little moon, rolled across the floor; close a coat; s
needle: thin, silver, sharp; flashed in the light, was sharp and bright; sew a coat; s
rope: long, strong, thick; held tight, swung in the wind; climb up; s
ladder: tall, wooden, old; reached up to the roof, wobbled a little; climb up; l
bridge: narrow, wooden, old; creaked with every step, swung over the river; cross the river; l
hammer: heavy, old, iron; banged loudly, rang on the nails; build things; s
shovel: big, rusty, wooden; went deep into the ground, scraped on the stones; dig holes; s
bucket: blue, tin, old; was full of water, rattled on its handle; carry water; s
basket: round, little, brown; smelled of fresh bread, was full to the top; carry apples; s
bag: green, heavy, old; was full of surprises, felt heavy; carry things; s
bottle: green, glass, old; floated on the waves, held a secret message; carry water; s
cup: blue, little, chipped; was full of warm milk, steamed softly; drink tea; s
teapot: round, blue, old; whistled merrily, steamed softly; make tea; s
spoon: wooden, silver, big; clinked in the bowl, was shiny and clean; eat soup; s
pot: big, black, iron; bubbled on the fire, smelled wonderful; cook soup; s
pie: warm, sweet, big; smelled of apples, steamed on the table; feed the guests; s
cake: sweet, tall, pink; smelled of sugar, looked delicious; celebrate a birthday; s
sandwich: big, fresh, tasty; smelled wonderful, was full of cheese; feed a hungry friend; s
cookie: sweet, round, crunchy; smelled of sugar, crumbled a little; make someone smile; s
apple: red, sweet, shiny; tasted sweet, fell into the grass; make a pie; s
pumpkin: orange, huge, round; grew bigger every day, glowed in the sun; make soup; s
carrot: orange, crunchy, long; tasted sweet, stuck out of the ground; make soup; s
mushroom: little, brown, strange; smelled of rain, stood in the moss; make soup; s
egg: blue, warm, speckled; moved a little, cracked softly; hatch a chick; s
seed: tiny, brown, magic; grew into a green plant, slept in the soil; grow a flower; s
flower: yellow, pretty, little; opened in the sun, smelled sweet; make someone smile; s
rose: red, lovely, white; smelled sweet, opened slowly; make someone smile; s
leaf: golden, red, green; danced in the wind, fell slowly; decorate a nest; s
acorn: brown, tiny, round; rolled into the grass, fell from the tree; grow an oak tree; s
stick: long, strong, crooked; lay in the grass, made a good sound; draw in the sand; s
umbrella: red, big, yellow; opened with a pop, kept everyone dry; stay dry; s
hat: tall, green, funny; flew off in the wind, sat a little crooked; look smart; s
scarf: red, warm, long; fluttered in the wind, was soft and warm; keep warm; s
coat: warm, blue, long; kept the cold away, was soft and warm; keep warm; s
blanket: soft, warm, woolly; felt soft and warm, smelled of home; keep warm; s
pillow: soft, white, big; felt like a cloud, was full of feathers; sleep well; s
boot: left, old, muddy; squeaked with every step, was full of water; walk through puddles; s
sock: striped, warm, lost; was full of holes, smelled of soap; keep a foot warm; s
glove: red, warm, woolly; kept the fingers warm, lay in the snow; keep a hand warm; s
mask: funny, golden, strange; made everyone laugh, had a wide smile; play a trick; s
doll: small, pretty, old; smiled quietly, wore a blue dress; put on a play; s
puppet: wooden, funny, little; danced on its strings, nodded its head; put on a show; s
marble: green, glass, tiny; rolled in circles, shone like a little world; play a game; s
sled: fast, wooden, red; slid down the hill, flew over the snow; race down the hill; l
bicycle: red, rusty, new; rolled down the road, rattled over the stones; ride to town; l
cart: wooden, old, small; rolled over the stones, squeaked loudly; carry hay; l
wagon: red, big, old; rolled slowly, squeaked loudly; carry everyone; l
train: long, red, fast; puffed up the hill, whistled loudly; travel far; l
car: little, red, funny; rattled along the road, honked twice; drive to town; l
bus: yellow, big, slow; stopped at every corner, was full of people; ride to school; l
tractor: green, loud, old; rumbled over the field, coughed and started; plough the field; l
rocket: silver, tall, shiny; roared into the sky, shone like a star; fly to the moon; l
spaceship: silver, strange, round; hummed quietly, glowed blue; fly to the stars; l
airplane: small, white, old; roared over the hills, turned in a circle; fly over the clouds; l
telescope: long, brass, old; showed the craters of the moon, pointed at the stars; look at the stars; s
camera: old, tiny, black; clicked softly, took a funny picture; take pictures; s
radio: old, little, brown; crackled softly, played an old song; hear the news; s
machine: strange, loud, huge; hummed and clicked, puffed out blue steam; do the work of ten; l
computer: old, clever, grey; beeped twice, showed a green light; solve hard sums; s
broom: old, magic, wooden; swept by itself, stood behind the door; sweep the floor; s
wand: magic, thin, silver; threw green sparks, hummed in the air; do magic; s
potion: strange, green, magic; bubbled and hissed, smelled of mint; cure a cold; s
sword: wooden, old, shiny; flashed in the sun, rang like a bell; protect the village; s
shield: round, heavy, painted; shone in the sun, held off the rain; protect the village; s
arrow: straight, golden, thin; flew through the air, hit the tree; show the way; s
flag: red, tall, torn; waved in the wind, fluttered from the tower; send a signal; s
net: strong, old, big; held tight, dripped with water; catch fish; s
anchor: heavy, old, iron; was heavy and cold, stood firm; stop a ship; l
wheel: big, wooden, broken; turned slowly, rolled away; mend a cart; s
chair: wooden, old, wobbly; creaked a little, stood by the fire; rest for a while; l
table: long, round, wooden; was full of good food, stood by the window; share a meal; l
bed: soft, big, old; creaked a little, looked warm; sleep well; l
door: secret, green, little; opened with a creak, stood open; go inside; l
window: round, little, dusty; let in the light, opened to the garden; look outside; l
nest: warm, round, empty; was soft and warm, swung in the branches; keep eggs warm; s
statue: old, stone, strange; looked far away, stood in the rain; remember a hero; l
snowball: round, cold, big; rolled down the hill, grew bigger and bigger; build a snowman; s
star: bright, tiny, fallen; twinkled softly, shone all night; make a wish; s
rainbow: bright, wide, lovely; shone over the hills, had seven colours; cheer everyone up; l
cloud: white, fluffy, little; drifted over the hills, looked like a sheep; bring some rain; l
toy: little, wooden, broken; was missing one wheel, looked very funny; play a game; s
present: big, mysterious, little; was tied with a red ribbon, rattled a little; surprise a friend; s
ribbon: red, silk, long; fluttered in the wind, shone in the sun; tie up a present; s
painting: old, lovely, tiny; showed a green valley, shone in bright colours; decorate the wall; s
puzzle: hard, old, wooden; had a hundred pieces, was missing one piece; pass the time; s
magnet: strong, red, little; pulled at every nail, clicked on the iron; find lost nails; s
treasure: hidden, golden, old; sparkled brightly, lay under the ground; help the village; s
jar: big, glass, blue; was full of honey, shone in the light; keep honey; s
"""

# noun: at; to; spots
PLACES_TEXT = """
forest: in; under a fern, behind an old oak, in a hollow tree
wood: in; under a bush, behind an old oak, beside a mossy log
jungle: in; under a giant leaf, behind a waterfall, among the vines
meadow: in; among the flowers, in the tall grass, beside a stone
field: in; among the corn, under a hedge, beside the old fence
garden: in; under the roses, behind the shed, beside the well
park: in; under a bench, beside the fountain, behind a big tree
orchard: in; under an apple tree, in the tall grass, behind a ladder
village: in; behind the bakery, under the old bridge, beside the well
town: in; behind the market, under a bench, on the church steps
city: in; in a narrow street, under a bench, behind a shop
castle: in; behind a curtain, in the tower, under the stairs
palace: in; behind the throne, under a carpet, in the great hall
tower: in; on the top step, behind a little door, under a loose stone
cottage: in; under the bed, behind the stove, on a high shelf
barn: in; under the hay, behind a wheel, up in the loft
farm: on; behind the barn, in the hay, beside the pond
school: at; under a desk, behind the blackboard, in the yard
library: in; behind the tallest shelf, under a table, between two books
museum: in; behind a statue, under a glass case, in a dark corner
kitchen: in; behind the stove, under the table, in a cupboard
attic: in; under a dusty sheet, in an old trunk, behind the chimney
cellar: in; behind a barrel, under the stairs, on a dark shelf
bakery: in; behind the oven, under the table, in a bag of flour
market: at; under a stall, behind a basket, between two carts
harbour: in; behind a pile of nets, under a boat, beside an old anchor
island: on; under a palm tree, in the sand, behind a rock
beach: on; under a shell, in the sand, behind a rock
lake: by; among the reeds, under a little boat, beside the shore
river: by; under a flat stone, among the reeds, beside the bridge
pond: by; among the reeds, under a lily leaf, beside a frog
sea: by; in the sand, behind a rock, under an old boat
waterfall: by; behind the falling water, under a wet stone, among the ferns
swamp: in; among the reeds, under a crooked root, in the mud
cave: in; behind a big stone, in a dark corner, under a heap of leaves
valley: in; beside a stream, under a bush, behind a rock
hill: on; under a lonely tree, behind a stone, in the tall grass
mountain: on; under the snow, behind a rock, in a small cave
desert: in; under the sand, behind a cactus, beside a dry well
volcano: near; behind a black rock, in the ash, under a warm stone
glacier: on; in a crack in the ice, under the snow, behind a wall of ice
lighthouse: in; on the top step, under the stairs, behind the big lamp
mill: in; behind the millstone, under a sack, beside the big wheel
mine: in; behind a wagon, in a dark corner, under a loose stone
circus: at; under the big tent, behind a wagon, beneath a seat
theatre: in; behind the curtain, under a seat, on the dark stage
station: at; under a bench, behind the ticket office, beside the clock
workshop: in; under the bench, behind a pile of wood, in a drawer
greenhouse: in; among the tomatoes, behind a big pot, under a leaf
moon: on; in a crater, behind a grey rock, under the silver dust
hospital: in; under a bed, behind a white curtain, on the window sill
zoo: at; behind the monkey house, under a bench, beside the pond
playground: in; under the slide, in the sand, behind the swings
igloo: in; under a fur, behind a block of ice, beside the fire
treehouse: in; under a blanket, behind the little door, on the roof
labyrinth: in; behind the third corner, under a hedge, beside a fountain
bay: in; under a rock, in the sand, beside an old boat
canyon: in; behind a red rock, under a ledge, beside a dry bush
"""

NAMES_SHE = """Ada Alice Amelia Anna Bella Bea Clara Chloe Daisy Dora Ella Emma Eva Fern Flora Freya Grace Greta Hanna
Hazel Ida Ines Iris Ivy Jade Jana June Kira Lara Lea Lena Lila Lily Lola Lotte Lucy Luna Maya Mara Mia Mila Mina Molly
Nadia Nell Nina Nora Olive Pearl Penny Pia Poppy Rita Rosa Rose Ruby Sadie Sara Selma Sofia Stella Tara Tilda Tess Uma
Vera Viola Wilma Willow Yara Zara Zoe""".split()

NAMES_HE = """Adam Alfie Anton Arlo Ben Benno Bruno Carl Casper Dan David Emil Eric Felix Finn Fred Gus Hans Harry Henry
Hugo Ian Isaac Ivan Jack Jasper Joe Jonas Karl Kai Leo Leon Levi Louis Luke Marco Max Milo Ned Nico Noah Oliver Omar
Oscar Otto Owen Pablo Paul Percy Peter Pip Ravi Rex Rob Rufus Sam Sami Simon Theo Tim Timo Toby Tom Viktor Walter Will
Yann Zack""".split()

FRIENDLY_ADJECTIVES = """little young small kind brave shy clever cheerful curious gentle quiet funny lonely dreamy
careful busy patient polite friendly honest lively stubborn hopeful""".split()

FEELINGS = "happy proud glad cheerful thankful calm relieved delighted".split()

MORALS = {
    "friendship": "A good friend is worth more than gold.",
    "kindness": "A little kindness goes a long way.",
    "courage": "Being brave means trying even when you are afraid.",
    "sharing": "Good things are better when they are shared.",
    "patience": "Good things come to those who wait.",
    "honesty": "It is always best to tell the truth.",
    "helping": "Many hands make light work.",
    "curiosity": "Those who ask questions find answers.",
    "trust": "Trust grows slowly, but it grows strong.",
    "hope": "After every storm the sun comes back.",
}


def _fields(line):
    head, _, rest = line.partition(":")
    return head.strip(), [tuple(x.strip() for x in part.split(",")) for part in rest.split(";")]


def _creatures(text, is_person):
    result = []
    for line in text.strip().splitlines():
        head, (traits, skills) = _fields(line)
        noun, _, gender = head.partition("=")
        result.append(Creature(noun, traits, skills, is_person, gender))
    return result


def _things(text):
    result = []
    for line in text.strip().splitlines():
        noun, (looks, did, use, size) = _fields(line)
        result.append(Thing(noun, looks, did, use[0], size[0] == "s"))
    return result


def _places(text):
    result = []
    for line in text.strip().splitlines():
        noun, (prepositions, spots) = _fields(line)
        result.append(Place(noun, f"{prepositions[0]} the {noun}", f"to the {noun}", spots))
    return result


ANIMALS = _creatures(ANIMALS_TEXT, is_person=False)
PEOPLE = _creatures(PEOPLE_TEXT, is_person=True)
CREATURES = ANIMALS + PEOPLE
THINGS = _things(THINGS_TEXT)
SMALL_THINGS = [thing for thing in THINGS if thing.is_small]
PLACES = _places(PLACES_TEXT)
