"""The plots: each a list of beats (templates) with the questions a reader could be asked about it.

Slots: $h the hero, $hs "the hero's", $he $him $his; $hero a full introduction ("a shy fox named Ruby"); the same for
the friend with $f, $fs, $fhe, $fhim, $fhis, $friend. $thing, $a_thing, $nice_thing ("an old lantern"), $did, $use.
$at, $to, $place, $spot for the place. Beats that begin with "~" may be left out; short stories leave them all out.
"""

from dataclasses import dataclass

ANY, SMALL, BUILT = "any", "small", "built"


@dataclass(frozen=True)
class Plot:
    name: str
    beats: tuple
    questions: tuple  # pairs of question and answer templates
    thing: str = SMALL
    morals: tuple = ()
    values: tuple = ()  # pairs of slot name and its possible values, chosen once per story
    lives_at_place: bool = True


HOME_OPENINGS = (
    "(Once upon a time|Long ago|A long time ago|Many years ago), $hero lived $at.",
    "(Once upon a time there was|There once was|Once there was|Long ago there was) $hero who lived $at.",
    "$At lived $hero.",
    "(Once upon a time|Long, long ago), $at, there lived $hero.",
    "$At there lived $hero.",
)

OPEN_OPENINGS = (
    "(Once upon a time|Long ago|Many years ago), there was $hero.",
    "(Once upon a time there was|There once was|Once there lived) $hero who (dreamed of adventures|loved long walks|"
    "was always curious).",
)

CLOSINGS = (
    "From that day on, $h and $f were (the best of friends|good friends|always together).",
    "(That evening|That night), $h fell asleep with a smile.",
    "And (whenever $h thought of that day, $he smiled|$h never forgot that day).",
    "$H was (very|so) $feeling, and so was $f.",
    "They (laughed and sang|told stories|danced) until the (stars|moon) came out.",
    "$H and $f walked home (hand in hand|side by side|together), tired but $feeling.",
    "And they all lived happily ever after.",
    "It had been (a wonderful day|a very good day|the best day of the year).",
    "$H went home feeling $feeling.",
)

EXTRAS = (
    "(Before they parted|As a thank-you|Later), $f gave $h $an_extra(| to remember the day).",
    "On the way home, $h also found $an_extra(| and kept it).",
    "$F also had $an_extra, and they both (liked|admired) it.",
)

ONE_SENTENCE = (
    "(One day|Once upon a time|Long ago), $hero found $nice_thing $at and shared it with $friend.",
    "(One day|Once), $hero used $nice_thing to help $friend who was lost $at.",
    "(Once upon a time|Long ago), $hero and $friend carried $nice_thing $to and became best friends.",
    "$Hero lost $nice_thing $at, but $friend found it, and they both laughed.",
    "When the storm came, $hero and $friend sat together $at and looked after $nice_thing until the sun came back.",
)

PLOTS = (
    Plot("lost and found", (
        "$H had $nice_thing(| that $he loved very much| and took it everywhere).",
        "~(Every evening|Every day|Whenever $he could), $he used it to $use.",
        "(One morning|One windy day|One rainy afternoon|But one day), the $thing was gone.",
        "$H looked (everywhere|in every corner|high and low), but $he could not find it.",
        "~\"(Where can it be|Where is my $thing|What shall I do)?\" $he (cried|sighed|whispered).",
        "(Soon|After a while|Just then), $friend came (by|along).",
        "~\"(Why are you so sad|What is the matter|What happened)?\" asked $f.",
        "\"I have lost my $thing,\" said $h.",
        "\"(Do not worry|Do not cry|Cheer up),\" said $f. \"(I will help you|We will look for it together|Two can "
        "search better than one).\"",
        "(They|Together they|The two of them) searched (until the sun went down|all afternoon|for a long time).",
        "(At last|Finally|In the end), they found the $thing $spot.",
        "~The $thing $did(| as if nothing had happened).",
        "$H (hugged $f|jumped for joy|laughed with joy) and said, \"(Thank you, my friend|Thank you so much|I could "
        "not have found it without you)!\"",
    ), (
        ("What did $h lose?", "$H lost the $thing."),
        ("Who helped $h?", "$F helped $him."),
        ("Where did they find the $thing?", "They found it $spot."),
    ), morals=("friendship", "helping")),

    Plot("friend in trouble", (
        "(One day|One cold morning|One afternoon), $h was (out for a walk|on $his way home|looking for berries) when "
        "$he heard a (cry|faint voice|strange sound).",
        "It was $friend who $trouble.",
        "\"(Help|Please help me)!\" (called|cried) $f.",
        "~$H (was a little afraid|did not know what to do at first), but $he did not run away.",
        "(Luckily|By good luck|Fortunately), $h had $nice_thing with $him.",
        "~\"(Wait|Hold on|Be calm),\" said $h. \"I have an idea.\"",
        "(Carefully|Quickly|Bit by bit), $he used the $thing to help, and (soon|before long) $f was (safe|all right) "
        "again.",
        "~The $thing $did, and they both laughed.",
        "\"You are (so kind|a true friend|very brave),\" said $f.",
        "\"(Anyone would have done the same|That is what friends are for|I was happy to help),\" said $h.",
    ), (
        ("What happened to $f?", "$F $trouble."),
        ("What did $h use to help?", "$H used the $thing."),
        ("Who was in trouble?", "$F was in trouble."),
    ), morals=("kindness", "helping", "courage"), values=(
        ("trouble", ("was stuck in the mud", "had fallen into a deep hole", "was caught in a thorny bush",
                     "had hurt a foot", "was trapped under a branch", "could not find the way home")),
    )),

    Plot("learning a skill", (
        "$H wanted to learn how to $new_skill, but (it was very hard|nobody had shown $him how|every try went wrong).",
        "~(The first time, $he fell over|At first, everyone laughed|Again and again, it went wrong).",
        "(One day|One morning), $he met $friend who could $new_skill very well.",
        "\"(Can|Will) you (teach me|show me how)?\" asked $h.",
        "\"(Of course|Gladly|Yes), but you must (practise every day|be patient|never give up),\" said $f.",
        "So they (met|practised|worked) $at every (morning|evening|day).",
        "~(Some days went well and some days went badly|Slowly, it became easier|$H made many mistakes and learned "
        "from each of them).",
        "(After a week|After a month|At last), $h could $new_skill (all alone|without any help|as well as $f).",
        "$F was so proud that $fhe gave $him $nice_thing.",
        "~The $thing $did, and $h (held it tight|looked at it for a long time|would not let it go).",
    ), (
        ("What did $h learn?", "$H learned how to $new_skill."),
        ("Who taught $h?", "$F taught $him."),
        ("What did $f give to $h?", "$F gave $him $nice_thing."),
    ), morals=("patience",), values=(
        ("new_skill", ("swim", "whistle", "read", "dance", "juggle", "bake a cake", "paint", "tie knots", "skate",
                       "sing",
                       "write a poem", "tell jokes", "play chess", "knit", "cook", "count to a hundred", "climb")),
    )),

    Plot("sharing", (
        "$H owned $nice_thing and was very proud of it.",
        "(One day|One sunny morning|One afternoon), $friend (stopped to look|came to visit|passed by) and asked, "
        "\"May I (try|hold|use) the $thing?\"",
        "\"No, it is (mine|only for me|all mine),\" said $h(| and turned away).",
        "$F (walked away slowly|went home without a word|looked at the ground and left).",
        "Now $h had the $thing all to $himself, but (it was no fun alone|$he felt lonely|the day seemed very long).",
        "~\"(It is no good without a friend|I was not kind|That was wrong of me),\" thought $h.",
        "So $he (ran after|went to find|hurried to) $f and said, \"I am sorry. (Let us share it|We can use it "
        "together|It is more fun with two).\"",
        "$F smiled, and together they used the $thing to $use.",
        "~The $thing $did, and it had never been (better|nicer|more fun).",
    ), (
        ("What did $h own?", "$H owned $nice_thing."),
        ("Who wanted to use the $thing?", "$F wanted to use it."),
        ("Did $h share in the end?", "Yes, $h shared the $thing with $f."),
    ), morals=("sharing", "kindness", "friendship")),

    Plot("storm", (
        "(One night|One evening|One dark afternoon), a (big|terrible|wild) storm came (over the hills|from the west|"
        "without warning).",
        "The (wind howled|thunder rolled|rain fell in sheets), and $h (hid under a blanket|sat very still|listened "
        "with wide eyes).",
        "Then $he heard a knock. (Outside stood|At the door was|There stood) $friend, wet and (cold|shivering|tired).",
        "\"(May I come in|Can I stay here|Will you let me in)?\" asked $f. \"The storm has (taken my home|blown my "
        "roof away|caught me on the road).\"",
        "\"(Of course|Come in quickly|You are welcome here),\" said $h(| and made some hot soup).",
        "All night long they sat beside $nice_thing and (told stories|sang songs|talked).",
        "~The $thing $did, and (the storm did not seem so loud any more|they forgot the thunder).",
        "In the morning, the (sky was blue|sun was shining|rain had stopped).",
        "\"(I will never forget this|You have a warm heart),\" said $f(|, and they had breakfast together).",
    ), (
        ("Who knocked at the door?", "$F knocked at the door."),
        ("What did they sit beside?", "They sat beside the $thing."),
        ("Why did $f come?", "$F came because of the storm."),
    ), thing=ANY, morals=("kindness", "hope")),

    Plot("building", (
        "$H had (always wanted|long dreamed of) $a_thing.",
        "\"I will build one myself,\" $he (said|decided) one (morning|day).",
        "(All day long|For three days|All week), $he (worked hard|gathered wood and nails|measured and hammered).",
        "~But (the pieces would not fit|everything fell over|it was too heavy for one), and $h (sat down "
        "sadly|wanted to give up|sighed).",
        "(Then|Soon|That afternoon), $friend came (by|along) and (looked at the plan|watched for a while|scratched "
        "$fhis head).",
        "\"(Four hands are better than two|Let us try it together|I can hold this side),\" said $f.",
        "They (worked|hammered|sawed) side by side, and (by evening|before the week was over|at last) the $thing was "
        "(ready|finished).",
        "It was $nice_thing, and everyone $at came to (see|admire) it.",
        "~The $thing $did, and (people clapped|everyone cheered).",
        "Now they could $use.",
    ), (
        ("What did $h build?", "$H built $a_thing."),
        ("Who helped $h?", "$F helped $him."),
        ("What could they do with the $thing?", "They could $use."),
    ), thing=BUILT, morals=("helping", "patience")),

    Plot("journey", (
        "(One day|One spring morning|One evening), $he heard that $nice_thing was hidden (far away, |)$at.",
        "So $h packed (some bread|a little bag|some cheese and apples) and set off.",
        "~(The way was long|The road was steep|The sun was hot), but $he kept walking.",
        "On the (second|third|first) day, $he met $friend (by the road|at a crossroads|under a tree).",
        "\"Where are you going?\" asked $f. \"I am going $to to find the $thing,\" said $h.",
        "\"(I will come with you|Then I will come too|I know the way),\" said $f.",
        "~They (crossed a cold river|climbed over rocks|slept under the stars) and (sang to stay awake|shared their "
        "last apple|told each other stories).",
        "(At last|After many days|Finally), they reached the $place, and there, $spot, they saw the $thing.",
        "It $did, and (they held their breath|$h laughed out loud|they could hardly believe it).",
        "~\"(The journey was even better than the prize|We did it together|I am glad you came along),\" said $h.",
    ), (
        ("Where did $h go?", "$H went $to."),
        ("What was $h looking for?", "$H was looking for the $thing."),
        ("Who did $h meet on the way?", "$H met $friend."),
        ("Where was the $thing?", "The $thing was $spot."),
    ), morals=("courage", "friendship", "curiosity"), lives_at_place=False),

    Plot("mistake and apology", (
        "(One day|One afternoon|One morning), $friend lent $him $nice_thing.",
        "\"(Please be careful with it|It is very dear to me|Bring it back tomorrow),\" said $f.",
        "$H promised, but (while $he was playing|on the way home|in a careless moment), $he dropped the $thing into "
        "the $trap.",
        "~$H felt (terrible|awful|very sorry) and (hid at home|could not sleep|did not want to eat).",
        "~\"(What if $f is angry|Should I say nothing)?\" $he thought.",
        "(The next morning|In the end|At last), $he went to $f and told the truth.",
        "\"I dropped your $thing into the $trap. I am so sorry,\" $he said (quietly|with a red face|in a small voice).",
        "$F was (silent|quiet) for a moment. \"(Thank you for telling me|I am glad that you were honest),\" $fhe said. "
        "\"Let us get it out.\"",
        "Together they pulled the $thing out of the $trap and cleaned it (well|carefully|with a soft cloth).",
        "~It $did, and it was as good as new.",
    ), (
        ("Who lent the $thing to $h?", "$F lent it to $him."),
        ("Where did $h drop the $thing?", "$H dropped it into the $trap."),
        ("What did $h drop?", "$H dropped the $thing."),
        ("Did $h tell the truth?", "Yes, $h told the truth."),
    ), morals=("honesty", "friendship"), values=(("trap", ("mud", "pond", "well", "river", "ditch", "old barrel")),)),

    Plot("contest", (
        "Every (summer|spring|year), there was a (great|big|merry) $contest $at, and the prize was $nice_thing.",
        "$H (practised every day|wanted to win more than anything|could hardly wait).",
        "On the big day, $friend was (the strongest rival|also there|waiting at the start).",
        "\"(I will beat you|The prize will be mine|You cannot win),\" said $f.",
        "The $contest began, and $h was (soon ahead|in the lead|doing very well).",
        "But then $f (tripped and fell|slipped and cried out|hurt a foot).",
        "~$H looked at the prize. Then $he looked at $f.",
        "$H (stopped|turned around|went back) and helped $f to stand up, and they (finished|came in) together, last of "
        "all.",
        "The (judges|old judge|people) smiled and gave them both the $thing.",
        "~The $thing $did, and everyone clapped.",
        "\"(I was unfair to you|You are the real winner),\" said $f.",
    ), (
        ("What was the prize?", "The prize was $nice_thing."),
        ("Who fell?", "$F fell."),
        ("What kind of contest was it?", "It was a $contest."),
    ), morals=("kindness", "friendship"), values=(
        ("contest", ("race", "singing contest", "dancing contest", "swimming race", "cooking contest",
                     "jumping contest")),
    )),

    Plot("fear overcome", (
        "$H was afraid of $fear.",
        "~(Every night|Whenever $he thought of it), $he (trembled|pulled the blanket over $his head|felt very small).",
        "(One day|One evening), $friend (came to visit|noticed it|asked about it).",
        "\"(Do not be ashamed|Everyone is afraid of something|I was afraid of $fear too),\" said $f. \"Take this "
        "$thing. (It will give you courage|Hold it tight|It has helped me many times).\"",
        "It was $nice_thing, and it $did.",
        "(That night|The next day|A little later), $h (took a deep breath|closed $his eyes for a moment|held the "
        "$thing tight) and (took one small step|counted to three|tried again).",
        "~One step became two, and two became ten.",
        "(Suddenly|Slowly|Little by little), $h noticed that $he was not afraid of $fear any more.",
        "\"(I did it|Look at me)!\" $he (shouted|cried|called).",
        "\"The courage was (in you all along|your own),\" said $f.",
    ), (
        ("What was $h afraid of?", "$H was afraid of $fear."),
        ("What did $f give to $h?", "$F gave $him $nice_thing."),
        ("Is $h still afraid?", "No, $h is not afraid any more."),
    ), morals=("courage", "trust"), values=(
        ("fear", ("the dark", "thunder", "deep water", "high places", "being alone", "loud noises", "the wind",
                  "big crowds")),
    )),

    Plot("gift", (
        "(Tomorrow|The next day) was the birthday of $friend, and $h had no present yet.",
        "~(First $he looked in the shop, but everything was too dear|$H had no money at all|$H thought and thought).",
        "(Then|While walking $at|Just before sunset), $he found $nice_thing $spot.",
        "\"(This is perfect|That is just right for $f|$F will love it),\" $he said.",
        "$H (cleaned|polished|wrapped) it (carefully|with great care|all evening) and tied a $colour ribbon around it.",
        "(At the party|The next morning|On the birthday), $f opened the present with (big eyes|trembling fingers|a "
        "shout of joy).",
        "~The $thing $did, and all the guests said \"(Oh|Ah|How lovely)!\"",
        "\"It is the best present (ever|of all|in the world),\" said $f, \"because (you found it for me|you thought of "
        "me|it comes from you).\"",
    ), (
        ("Whose birthday was it?", "It was the birthday of $f."),
        ("What was the present?", "The present was $nice_thing."),
        ("Where did $h find the present?", "$H found it $spot."),
        ("What colour was the ribbon?", "The ribbon was $colour."),
    ), morals=("kindness", "friendship"), values=(("colour", ("red", "blue", "green", "yellow", "white", "golden")),)),

    Plot("mystery", (
        "(Every night|Night after night|For three nights), a strange $noise came from (somewhere near|far away|the "
        "dark), and nobody knew why.",
        "\"I will find out,\" said $h (bravely|one evening|at last).",
        "$He (waited|sat quietly|hid) until (midnight|the moon rose|it was dark) and then followed the $noise.",
        "~(Step by step|On tiptoe|Very slowly), $he came closer. $His heart beat fast.",
        "And there, $spot, sat $friend with $nice_thing.",
        "\"So it was you!\" said $h. \"What are you doing here?\"",
        "\"I am trying to $use,\" said $f (softly|quietly|with a red face), \"but I (did not want to wake anyone|was "
        "too shy to do it by day).\"",
        "~The $thing $did, and $h could not help smiling.",
        "\"You (do not have to|need not) hide,\" said $h. \"(Come with me|We would all like to see it|Let us do it "
        "together).\"",
        "So the mystery was solved, and $f was never (alone|lonely) again.",
    ), (
        ("What did $h hear at night?", "$H heard a strange $noise."),
        ("Who made the $noise?", "$F made the $noise."),
        ("What did $f have?", "$F had $nice_thing."),
    ), morals=("curiosity", "friendship"), values=(
        ("noise", ("noise", "knocking", "humming", "rattling", "whisper", "ringing")),
    )),

    Plot("wish", (
        "(One day|One evening|One morning), $he (found|discovered|saw) $nice_thing $spot.",
        "When $h touched it, the $thing $did, and a (tiny|soft|deep) voice said, \"You have one wish.\"",
        "~$H thought of (gold and cake|a big house|a hundred toys).",
        "~But then (a sad sound came through the air|$he heard someone crying).",
        "(Not far away|Nearby|On a stone) sat $friend who $sorrow.",
        "$H did not think long. \"I wish that $f may be happy again,\" $he said.",
        "There was a flash, and (all at once|suddenly|in the next moment) $f (laughed|smiled|was full of joy).",
        "\"(You gave your wish away for me|Why did you do that)?\" asked $f.",
        "\"(A friend is better than any wish|Now I have what I wanted: a friend),\" said $h.",
    ), (
        ("What did $h find?", "$H found $nice_thing."),
        ("Where was the $thing?", "The $thing was $spot."),
        ("Why was $f sad?", "$F $sorrow."),
        ("What did $h wish for?", "$H wished that $f may be happy again."),
    ), morals=("kindness", "sharing"), values=(
        ("sorrow", ("had no home", "had lost all hope", "missed the family", "had nothing to eat", "had no friends",
                    "was ill")),
    )),

    Plot("saving up", (
        "In a little shop, $h saw $nice_thing in the window.",
        "\"(If only I could have it|How I would love to have it),\" $he (sighed|said), but it cost $price coins, and "
        "$he had none.",
        "So $h went to work for $friend. ($He swept the floor|$He carried water|$He picked apples|$He washed the "
        "dishes) every day.",
        "~(It was hard work|$His arms were tired), but $h never complained.",
        "Week after week, $he put one coin into (an old jar|a little box|a sock).",
        "(At last|When spring came|One fine day), $h counted $price coins and ran to the shop.",
        "~But the window was empty. The $thing was gone!",
        "Then $f came (in|around the corner) with (a smile|a big smile|a wink) and the $thing. \"You worked so well "
        "that (I bought it for you|it is yours),\" said $f. \"Keep your coins.\"",
        "The $thing $did, and $h (was speechless|did not know what to say|shouted for joy).",
    ), (
        ("What did $h want?", "$H wanted $nice_thing."),
        ("How many coins did it cost?", "It cost $price coins."),
        ("Who did $h work for?", "$H worked for $f."),
    ), morals=("patience", "hope"), values=(("price", ("five", "six", "seven", "eight", "nine", "ten", "twelve",
                                                      "twenty")),)),

    Plot("lost on the way", (
        "(One evening|One foggy morning|One day), $h went for a walk, and soon $he did not know where $he was.",
        "The (fog was thick|sky grew dark|path had vanished), and (everything looked the same|no star could be seen).",
        "~\"(I must stay calm|Someone will find me),\" $he told $himself.",
        "Then $he (stumbled over|saw|found) $nice_thing $spot.",
        "~It $did, and that gave $him (hope|courage|an idea).",
        "$H (took|lifted|picked up) the $thing and (called into the dark|waved it high|made as much noise as $he "
        "could).",
        "(Far away|Not far off), $friend (heard it|noticed it) and (came running|hurried to help|followed the sound).",
        "\"(There you are|I have found you)!\" said $f. \"(Come, I know the way|Follow me|Stay close to me).\"",
        "Soon they saw the (lights of home|smoke of a warm fire|first houses).",
        "~\"Without the $thing I would never have found you,\" said $f.",
    ), (
        ("Who found $h?", "$F found $him."),
        ("What did $h find?", "$H found $nice_thing."),
        ("Where was the $thing?", "The $thing was $spot."),
    ), morals=("hope", "courage")),

    Plot("promise", (
        "(One day|One morning), $friend had to go away for $days days.",
        "\"Will you look after my $thing?\" asked $f. \"(Never leave it alone|Keep it safe|You must not lose it).\" "
        "\"I promise,\" said $h.",
        "It was $nice_thing, and it $did.",
        "On the first day, the others came and called, \"Come and play with us!\"",
        "~(The sun was shining|It sounded like fun), and $h wanted to go very much.",
        "\"I cannot,\" said $h. \"I gave my word.\"",
        "~On the next day, it rained, and $h covered the $thing with $his own coat.",
        "After $days days, $f came back and found the $thing (safe and sound|just as before|clean and dry).",
        "\"(I knew that I could trust you|You kept your promise),\" said $f. \"(Now it belongs to both of us|From "
        "now on, let us share it).\"",
    ), (
        ("What did $h look after?", "$H looked after the $thing."),
        ("How many days was $f away?", "$F was away for $days days."),
        ("Did $h keep the promise?", "Yes, $h kept the promise."),
    ), thing=ANY, morals=("trust", "honesty"), values=(("days", ("two", "three", "four", "five", "six", "seven")),)),

    Plot("newcomer", (
        "$H was new there and did not know anyone.",
        "~(Every day|All week), $he (sat alone|watched the others play|ate lunch alone).",
        "(One morning|One day), $he brought $nice_thing.",
        "The $thing $did, and (heads turned|everybody looked up|the others became curious).",
        "$Friend was the first to come closer. \"(What is that|Is that yours|May I see it)?\" asked $f.",
        "\"(It is my $thing|Yes, it is my $thing),\" said $h. \"(Would you like to try it|Do you want to help me)?\"",
        "Together they used it to $use, and soon they (were laughing|forgot the time|talked about everything).",
        "~(Then the others joined in too|One by one, the others came too), and nobody was left out.",
        "\"(I am glad you came here|It was dull before you came),\" said $f.",
    ), (
        ("What did $h bring?", "$H brought $nice_thing."),
        ("Who came closer first?", "$F came closer first."),
        ("What did they use the $thing for?", "They used it to $use."),
    ), morals=("friendship", "trust")),
)
