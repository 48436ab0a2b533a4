"""Sentences of many different words, for the speech corpus.

What they say matters less than that every sound meets every other. One word in seven of each kind is kept for judging,
unless other sentences need it, and never trained on.
"""

import re
from collections.abc import Iterator
from functools import cache

import numpy as np

from training.sentences import DENSE, SLOTS, polish
from training.sentences import TEMPLATES as NEWS_TEMPLATES

WORDS = {
    "noun": """
        abbey accent acrobat alley almond anchor ankle answer apple apron arch armchair arrow attic autumn
        avenue badge bakery balcony ballot banana bandage barn basement basket beard beaver bench berry bishop
        blanket blossom bonfire bottle boulder bracelet branch breakfast broom bubble bucket buffalo bullet
        butcher butter button cabbage cabin camel campaign canal candle carpet cashier castle caterpillar
        cathedral ceiling cellar champion chapel cheese cherry chimney circle cliff clinic coffee collar comet
        concert copper corridor cottage cousin cradle crayon creature cricket crystal cucumber curtain cushion
        daughter decade desert detective diamond dinner doctor dolphin donkey doorway dragon drawer drummer
        eagle elbow elephant engine envelope evening factory feather fellow fiddle finger flower flute forest
        fountain fox freezer frog furniture garage garden garlic gesture giraffe glacier glove goose gravel
        grocer guitar hammer harness harvest hedge helmet heron highway hobby honey hospital hotel hunter
        iceberg index insect island ivory jacket jaguar jelly jersey jewel journey judge jungle kettle keyboard
        kitchen kitten knuckle ladder lagoon lamp lantern laundry lawyer leather lemon leopard letter lizard
        lobby lobster locket luggage lumber machine magnet mayor meadow melon mirror mistake monkey mosque motor
        mushroom mustard napkin needle neighbour nephew nettle notebook nurse oatmeal office olive onion orchard
        oven owl oyster package painter palace parade parrot pavement peach pebble pelican pencil pepper piano
        picture pigeon pillow pilot pirate planet pocket poem pony porridge potato prison prophet pudding puppet
        purple pyramid quarry queen rabbit raccoon radio razor recipe refugee ribbon robot rocket rooster ruby
        sailor salad sandwich saucer scarf scissors shadow shepherd shoulder shovel shower signal silver sister
        skeleton slipper smoke soldier sparrow spider spoon squirrel stable statue stomach studio sugar surgeon
        swallow sweater teacher temple thimble thread thunder tiger timber tobacco tomato torch tower traffic
        trumpet tunnel turtle uncle uniform valley vampire velvet village vinegar violin volcano voyage waiter
        walnut weasel whale whistle widow willow window wizard workshop yacht yard yogurt zebra zipper airplane
        alarm album alphabet ambulance amount animal antenna apartment appetite arena argument army aroma artist
        ashtray athlete atom audience author axis bachelor backpack bacon bacteria badger baggage bagpipe baker
        ballet bamboo banjo banker banner barber bargain barley barrel baseball basin battery battle bazaar
        beacon beam bedroom beetle behaviour believer belly benefit beverage bicycle bike billboard biology
        biscuit blackbird blade blaze blizzard blood blouse boat body bomb bone bonus bookcase boot booth border
        bouquet boundary bow bowl boxer boy brain brake brand brass bread breath brewery brick bride broccoli
        bronze brother brow bruise brush buddy bug bumper bundle bunny bureau burglar bus bush businessman buyer
        buzz cabinet cable cafe cage cake calcium calendar calf camera camp canoe canvas canyon capsule caravan
        card cargo carnival carpenter carriage carrot cartoon cave cedar celery cell cello cement century cereal
        ceremony chain chair chalk chamber channel chaos chapter charcoal chariot charity chart chef chemist
        chess chicken child chin chocolate choir chorus chowder cigar cinema citizen clarinet clay clerk client
        cloak clock closet cloth cloud clown clue coal coast cobra cockpit cocoa coconut code coin college
        colonel colony colt column comb comedy comfort commander committee compass computer conductor cone
        contract convent convoy cooker cookie coral cork corn corner corpse costume cough council counter couple
        courage court cow coyote crab craft crane crater crayfish cream crew crime crocodile crop crow crowd
        crown crumb crust cube cuff cup cupboard curve customer cycle cylinder dairy daisy dam dancer dandelion
        dash date dawn deal dealer death debate debt deck deer defence degree delay dentist deputy desk dessert
        detail device devil dial dialogue diary dice diet digit dinosaur diploma director dish district diver
        dock document dog doll dome door dough dove drain drama dream dress drill drink driver drought drum duck
        dune dust duty dwarf ear earl earth earthquake echo edge editor education egg election electrician
        element elevator elm emerald emperor employer energy error essay estate evidence expert eye eyebrow
        fabric face factor failure faith falcon fall family fan farm farmer fashion father faucet fault fear
        feast ferry festival fever fibre field fig fighter figure film fire fish fisherman fist flag flame
        flamingo flight flock flood floor flour fly foam fog folder food foot football force fork fortune fossil
        fraud freedom freight friend frost fruit fuel funeral fur fury future gadget galaxy gallery gallon game
        gang gap gas gate gem general genius ghost ginger girl glass globe glow glue goal goat god gold golf
        gong gorilla gown grain grammar grandmother grape graph grass grave gravy grip ground group growth guard
        guest guide gulf gum gun gym habit hail hair hall ham hand handle hat hatch hawk hay head health heap
        heart heat heel heir height hell herb herd hero highland hill hinge hint hip history hockey hole holiday
        home hood hoof hook hope horn horse hose host hour house human hurricane husband hut hymn idea idol
        image inch income industry ink inn inquiry instrument invasion iron ivy jail jam jar jaw jazz jet job
        jockey joke joy juice jury justice kangaroo keeper key kidney king kiss kite knee knife knight knob knot
        koala label labour lace lady lake lamb lane language lap laser latch lavender law lawn layer leader leaf
        league leak leap lecture leg legend length lens lettuce level lever library licence lid life light lily
        limb lime limousine line lion lip liquid list liver loaf loan lock lodge log loop lord lorry lounge love
        luck lunch lung machinery magazine maid mail manager mango map maple marble march margin market marriage
        marsh mask mass master mat match mattress maze meal meat medal medicine melody memory menu merchant
        mercy message metal method midnight mile milk mill mind mine miner minister minute miracle mixture model
        moment money monster monument mood moon moose morning moss moth mother mould mountain mouse mouth movie
        mud mug mule muscle museum music mystery myth nail name nation nature navy neck needlework neighbourhood
        nerve nest net nickel night nightmare noise noodle noon north nose note novel number nut oak oasis oath
        object ocean octopus odour oil opera operator opinion orchestra order organ orphan ostrich otter ounce
        outfit outlaw oxygen pace pack paddle page pail pain palm pan panda panel panther pants paper parcel
        parent park parliament party passenger pasta patch path patient patrol pattern paw pea peace peak peanut
        pear pearl peasant pen penguin people period permit person pet petal phone photograph phrase physics pie
        piece pier pig pile pill pillar pin pine pint pipe pitch pizza place plain plan plane plank plate play
        player plaza plot plough plug plum plumber poet poison pole police policy pond pool pope porch port
        portrait post pot powder power prayer preacher president price priest prince princess printer prize
        problem process professor profit project proof property public puddle pulse pump pumpkin punch pupil
        puppy purpose purse puzzle quarter question queue quilt quiz quote rabbi race rack raft rage rail rain
        rainbow ranch range rank rascal rat ray reason rebel receipt record reed region relief religion rent
        report reporter rescue reservoir result reward rhythm rice riddle rider rifle ring riot river road roast
        rock rod roof room root rope rose route row rubber rug ruin rule ruler rumour runner sack saddle safety
        sage sail saint salary sale salmon salt sample sand satellite satin sauce sausage scale scandal
        scarecrow scene scent school science scientist scout screen screw sculptor sea seal season seat second
        secretary section seed self senate senator sense sentence sequence series servant service session shade
        shaft shampoo shape share shark sheep sheet shelf shell shelter sheriff shield shift ship shirt shock
        shoe shop shore shot show shrimp shrine shrub sign silence silk silo singer sink siren site size ski
        skill skin skirt skull sky slave sleeve slice slide slope snack snail snake snow soap soccer society
        sock sofa soil solution son song sorrow soul sound soup south space spade spark speaker spear species
        speech speed spell spice spike spinach spirit sponge sport spot spray spring spy square stadium staff
        stage stair stake stall stamp star start state station steak steam steel stem step stew stick stock
        stone stool store storm story stove stranger straw strawberry stream street strike string stripe
        structure student stuff style subject suburb success suit suitcase summer sun supper surface surprise
        swamp swan swarm sweat sword symbol symphony syrup system table tail tailor talent tank tape target task
        taste tax taxi tea team tear technique teeth telephone telescope television temper tennis tent term
        territory test text theatre theory thief thing thorn thought throat throne thumb ticket tide tie tile
        time tin tip title toad toast toe toilet token tongue tool tooth top topic tornado tourist towel town
        toy track trade trail train tramp transport trap tray treasure treaty tree trial tribe trick trip troop
        trouble trousers trout truck truth tube tulip tuna turkey turn tutor twig twin type tyre umbrella
        unicorn union unit universe university upstairs user vacation vase vault vegetable vehicle vein verse
        vest victim victory video view vine virus vision vitamin voice volume vote voter vulture wage wagon
        waist wall wallet war warehouse warrior wasp waste water wave wax weapon weather web wedding weed week
        weekend weight west wheat wheel whip whisker whisky wife wig wind wine wing winner winter wire wish
        witch witness wolf woman wonder wood woodpecker wool word work worker world worm wound wreck wren wrist
        writer yak yarn year yeast yolk youth zone zoo
    """,
    "verb": """
        admired adopted amused arranged attacked avoided balanced banned bathed blamed borrowed bothered brought
        brushed built buried caught chased chose cleaned climbed collected combed copied covered crossed damaged
        dared delayed described doubted drew drove emptied enjoyed examined explored filled fetched followed
        forgave fought framed fixed gathered greeted guarded handled hated helped hid hired hugged hurried
        ignored improved invited joined juggled kept kicked knew launched lifted loved lowered managed measured
        mended missed noticed obeyed offered ordered painted passed planted polished praised promised pulled
        pushed questioned raised reached removed repaired rescued robbed saved searched shook shaped sketched
        sold spared squeezed supported swapped taught teased thanked threw touched trapped trusted understood
        untied urged valued visited wanted warned washed watched weighed whispered wiped wrapped wrote abandoned
        absorbed accepted accused achieved added adjusted agreed aimed announced annoyed answered applied
        approved argued arrested asked assembled assured ate awoke backed baked beat became began begged
        betrayed bit blew blocked bombed booked boiled bounced bought bowed broke bruised bullied bumped burned
        called cancelled captured carried carved caused challenged changed charged charmed checked cheered
        chewed choked chopped claimed clapped clipped closed coached combined comforted commanded compared
        complained completed confused considered consulted controlled convinced cooked corrected counted crashed
        crawled created cried crowned crushed cured cut damned danced dealt decided declared decorated defeated
        defended delivered demanded denied depended deserved designed desired destroyed developed discovered
        discussed disliked divided dragged dreamed dressed drank dried dropped drowned dug dyed earned educated
        elected embraced employed encouraged ended engaged entered escaped estimated exchanged excused expected
        explained exploded faced failed fed feared felt fired fished fitted fled flew flipped floated flooded
        folded fooled forced forgot found freed frightened frowned gained gave glued grabbed granted grew
        grinned grounded guessed guided hammered happened harmed heard heated held hit honoured hooked hoped
        hunted hurt identified imagined impressed informed injured inspected inspired insulted interviewed
        invented ironed jailed jumped judged killed kissed knitted knocked labelled laid landed laughed led
        learned left lent liked linked listened loaded locked looked lost made marched marked married matched
        meant melted met milked mixed moaned mocked moved multiplied named needed nodded objected observed
        obtained occupied opened opposed owed owned packed parked paid permitted persuaded phoned picked pinched
        pitied placed played pleaded pleased pointed poked poured practised preferred prepared presented
        preserved pressed prevented printed produced protected proved provided published pumped punched punished
        put quit ran rang realised received recognised recorded reduced refused regretted rejected released
        remembered reminded replaced replied reported represented required respected returned revealed rode
        rolled rubbed ruined rushed said sailed sang sank sat saw scolded scratched screamed seized sent served
        sewed shared shaved shocked shot shouted showed shut signed slept slid slipped smashed smelled smiled
        sniffed spelled spent spilled split spoiled spoke sprayed spread stabbed stamped stared started stayed
        stole stood stopped stored strengthened stretched struck studied stuffed submitted suffered suggested
        suited surprised surrounded suspected swallowed swept swung switched talked tapped tasted tested tied
        told took tore towed traded trained translated transformed treated tricked tried tripped troubled turned
        twisted typed used vanished viewed voted waited walked wandered warmed wasted watered waved welcomed
        went whipped whistled won wondered wore worked worried wounded wrecked yelled
    """,
    "adjective": """
        ancient angry awkward bashful bitter blue bold brief bright brittle broad calm careful charming cheap
        chilly clever cloudy clumsy coarse cosy cruel curious damp dangerous delicate dirty dull dusty eager
        early elegant empty evil faithful famous fancy favourite fierce filthy flat foolish foreign frozen funny
        gentle giant gloomy golden graceful grateful greedy handsome happy harsh healthy helpful hollow honest
        horrible huge humble icy jealous juicy kind lazy lonely loose loud loyal lucky mighty modern muddy
        mysterious narrow naughty nervous noble noisy odd orange pale patient peaceful pleasant plump polite
        proud quick quiet rare royal rusty sacred scary secret shallow sharp shiny shy silent silly sleepy slim
        soft spare splendid stiff stormy strange sweet swift tame tender thick thirsty tiny tough ugly upset
        useful vague violent warm weary weird wicked wide wise wooden worthy young able absent absolute abstract
        active actual acute afraid aggressive alive alone amazing American angular annual anxious armed
        automatic average aware bad balanced bare basic beige better big black blank blind bored boring brave
        British broken brown busy capable casual central certain chief Chinese chronic civil classic clean clear
        close cold comfortable common compact complete complex confident constant cool correct crazy creative
        crisp criminal critical crooked crowded crucial curly current cute dark dead deaf dear decent deep
        defiant delighted dense deliberate different difficult digital dim distant divine domestic double
        doubtful dramatic dreadful dry dual dumb dutch eastern easy economic educational effective elaborate
        elastic elderly electric emotional endless enormous entire equal essential eternal European every
        excellent excited exotic expensive external extra faint fair false familiar far fast fat federal female
        final financial fine firm fit flaming flexible floral fluffy fond formal fortunate fragrant free French
        frequent fresh friendly frightened front full furry fuzzy general generous genuine German ghostly gifted
        glad global glorious good gorgeous gradual grand grave gray great Greek green gross growing guilty hairy
        half hard harmful hateful heavenly heavy hidden high historic holy homeless hot human hungry ideal
        identical idle ill illegal imaginary immediate immense immune imperial important impressive inner
        innocent instant internal Irish Italian Japanese joint Jewish junior just keen key known lame large last
        late leading lean left legal lesser level liberal light likely limited linear liquid literary little
        lively local logical long lost lovely low magic magnetic main major male married massive mature mean
        medical medieval mental merry middle mild military miniature minor missing mixed mobile moist moral
        multiple municipal musical mutual naked nasty national native natural near neat necessary negative
        neutral new nice normal northern nuclear numb obedient obvious official old Olympic open opposite oral
        ordinary organic original other outer oval painful parallel partial passive past perfect permanent
        personal physical pink plain plastic poetic pointed polar political poor positive possible practical
        precious precise pregnant present pretty previous primary prime primitive private probable professional
        proper public pure rainy random rapid ready real recent red regional regular relative reliable religious
        remote rich right rigid ripe romantic rotten round rude rural Russian sad safe salty same scarce secure
        selfish senior sensible separate serious severe short sick similar simple single skilled slow small
        smart smiling snowy social solar sole solid sore sorry sour southern special specific spicy spiral stale
        steady steep sticky straight strict strong stubborn stupid subtle successful sudden suitable sunny super
        superior supreme sure suspicious tall tasty technical temporary tense terrible thin tidy tight tired
        total toxic tragic tremendous tricky tropical true typical unable unfair uniform unique unknown urban
        urgent usual vacant vain valid valuable various vast verbal vertical vicious vital vivid voluntary weak
        wealthy western wet white whole wild willing windy wonderful wrong yellow
    """,
    "adverb": """
        afterwards almost always anyway badly bravely calmly clearly completely cruelly daily deeply early
        easily everywhere exactly finally gladly happily however indeed instead lately loudly maybe mostly never
        nowadays often once openly overnight perhaps politely probably quietly rapidly rarely sadly seldom
        simply slowly softly someday sometimes suddenly therefore together tonight truly twice usually vaguely
        warmly wisely yesterday abroad absolutely accidentally again ago ahead already also altogether annually
        apparently away awfully backwards barely beautifully before below briefly carefully certainly cheerfully
        closely commonly constantly correctly curiously definitely directly downstairs eagerly either elsewhere
        enormously entirely equally especially essentially eventually evidently ever exclusively extremely
        fairly faithfully fast fiercely firmly forever formerly forward frankly freely frequently fully
        fortunately furiously generally gently gracefully gradually greatly hardly hastily heavily here honestly
        hopefully hourly immediately inside instantly jointly joyfully just largely later least lightly likewise
        literally locally mainly meanwhile merely merrily moreover much namely naturally nearby nearly neatly
        nervously nevertheless nicely now obviously occasionally only originally otherwise outside painfully
        partly patiently perfectly personally physically please possibly precisely presently presumably
        previously promptly properly publicly purely quickly quite rather readily really recently regularly
        rightly roughly rudely safely secretly separately seriously severely sharply shortly similarly smoothly
        somehow somewhat soon specifically still straight strictly strongly subsequently successfully surely
        surprisingly then there thoroughly thus tightly today tomorrow too totally ultimately unfortunately
        upwards urgently usefully utterly very violently virtually voluntarily well wholly widely wildly
        wonderfully yet
    """,
    "place": """
        Africa Amsterdam Athens Australia Bavaria Belgium Bombay Boston Brazil Cairo California Canada Chicago
        Cuba Denmark Dublin Egypt Florida Geneva Georgia Hamburg Havana Houston Hungary Iceland India Ireland
        Jerusalem Kansas Kenya Lisbon Liverpool London Madrid Malta Manchester Mexico Morocco Moscow Naples
        Norway Oxford Paris Peru Poland Prague Quebec Rome Scotland Seoul Spain Sweden Texas Tokyo Toronto
        Vermont Virginia Wales Warsaw Wyoming York Zambia Adelaide Alaska Albania Algeria America Angola Arabia
        Argentina Arizona Arkansas Armenia Asia Atlanta Austin Austria Baghdad Baltimore Bangkok Barcelona
        Beijing Belfast Berlin Birmingham Bolivia Bosnia Bristol Britain Brooklyn Brussels Bucharest Budapest
        Bulgaria Burma Cambodia Cambridge Cardiff Carolina Ceylon Chad Chile China Cleveland Cologne Colombia
        Colorado Congo Copenhagen Cornwall Croatia Cyprus Dakota Dallas Damascus Dayton Delaware Delhi Denver
        Detroit Dover Durham Ecuador Edinburgh Ethiopia Europe Finland Florence France Frankfurt Gaza Germany
        Ghana Gibraltar Glasgow Greece Greenland Guatemala Haiti Harlem Hawaii Helsinki Holland Hollywood Idaho
        Illinois Indiana Indonesia Iowa Iran Iraq Israel Istanbul Italy Japan Jordan Kentucky Korea Kosovo
        Kuwait Lebanon Leeds Libya Louisiana Luxembourg Macedonia Maine Malaysia Manhattan Marseilles Maryland
        Massachusetts Memphis Miami Michigan Milan Milwaukee Minnesota Mississippi Missouri Montana Montreal
        Munich Nashville Nebraska Nepal Nevada Newcastle Nicaragua Niger Nigeria Norfolk Oakland Ohio Oklahoma
        Omaha Ontario Oregon Orlando Oslo Ottawa Pakistan Palestine Panama Paraguay Pennsylvania Phoenix
        Pittsburgh Plymouth Portugal Prussia Queensland Richmond Romania Russia Rwanda Sacramento Salzburg
        Santiago Sarajevo Seattle Serbia Shanghai Siberia Sicily Singapore Slovakia Somalia Stockholm Sudan
        Switzerland Sydney Syria Taiwan Tanzania Tehran Tennessee Thailand Tibet Tulsa Tunisia Turkey Uganda
        Ukraine Utah Vancouver Venice Venezuela Vietnam Washington Wellington Wisconsin Yemen Yorkshire
        Yugoslavia Zaire Zimbabwe
    """,
    "name": """
        Aaron Abigail Adam Adrian Agnes Alan Albert Alexander Alfred Alice Amanda Andrew Angela Anna Anthony
        Arthur Audrey Barbara Beatrice Benjamin Bernard Beth Betty Bill Brian Bruce Carl Carol Caroline
        Catherine Charles Charlotte Chris Christina Claire Claude Colin Cynthia Daniel David Deborah Dennis
        Diana Donald Dorothy Douglas Edgar Edith Edward Eleanor Elizabeth Ellen Eric Ernest Esther Ethan Eugene
        Eva Felix Frances Frank Fred Gabriel Gary Geoffrey George Gerald Gilbert Gloria Gordon Grace Graham Greg
        Hannah Harold Harry Heather Helen Henry Herbert Howard Hugh Irene Isabel Ivan Jack Jacob James Jane
        Janet Jason Jean Jennifer Jeremy Jessica Jim Joan Joel Jonathan Joseph Joyce Judith Julia Justin Karen
        Katherine Keith Kenneth Kevin Laura Lawrence Leonard Leslie Lewis Linda Lisa Louis Louise Lucy Luke
        Margaret Maria Mark Martha Martin Matthew Maureen Michael Michelle Monica Nancy Nathan Nicholas Nigel
        Nora Norman Oliver Olivia Oscar Pamela Patricia Patrick Pauline Philip Rachel Ralph Raymond Rebecca
        Richard Robert Robin Roger Ronald Rose Roy Russell Samuel Sandra Sarah Scott Sean Sharon Sheila Shirley
        Simon Stanley Stella Stephen Steven Stuart Susan Sylvia Theresa Thomas Timothy Tina Tom Tracy Valerie
        Vera Victor Victoria Vincent Virginia Walter Wanda Warren Wendy William Winston Yvonne Zoe
    """,
}
JUDGED_EVERY = 7
"""One word in so many is kept for judging."""

TEMPLATES = (
    "{adverb}, the {adjective} {noun} {verb} a {noun} near {place}.",
    "A {adjective} {noun} and a {adjective} {noun} {verb} the {noun}.",
    "In {place}, the {noun}, the {noun} and the {noun} {verb} every {noun}.",
    "Who {verb} the {adjective} {noun} of the {noun} in {place}?",
    "From {place} to {place}, the {noun} {adverb} {verb} its {noun}.",
    "No {noun} ever {verb} such a {adjective} {noun}; it {verb} the {noun}.",
    "The {noun} {verb} my {adjective}, {adjective} {noun} {adverb}.",
    "{name} {verb} the {noun} because it was {adverb} {adjective}.",
    "According to {name}, nobody in {place} {verb} this {noun} without a {noun}.",
    "We should have {verb} their {adjective} {noun} before {name} {verb} ours.",
    "What would {name} and {name} do with an {adjective} {noun}?",
    "Between {place} and {place}, several {adjective} {noun} signs were {adverb} {verb}.",
    "{name} says her {noun} is more {adjective} than his {noun}, though less {adjective}.",
    "If the {noun} could be {verb}, then {place} might keep both the {noun} and the {noun}.",
    "I hardly think {name} {verb} that {noun}; they have {verb} {adverb}.",
    "Under the {adjective} {noun}, behind the {noun}, {name} {verb} something {adjective}.",
    "During the {noun}, {adjective} {noun} prices in {place} rose {adverb} above those of {place}.",
    "Until {name} {verb} you, which {noun} was {adjective} enough for us all?",
    "Against {adjective} odds, {place} {verb} {name}, whose {noun} {verb} them through the {noun}.",
    "There are some {adjective} {noun} shows where {name} used to be {verb}.",
    "Other {noun} makers, such as {name} of {place}, were {adverb} {verb} by the {noun}.",
    "Let me show you how the {adjective} {noun} {verb}, and why it will be {verb} {adverb}.",
    "{name}, {name} and {name} {verb} a {adjective} {noun} into the {noun}.",
    "Only then did {place} see what a {adjective}, {adjective} {noun} the {noun} really was.",
)


def word_list(kind: str, *, judged: bool) -> list[str]:
    """Words of a kind: those that are only judged by, or those to train on."""
    words = WORDS[kind].split()
    if judged:
        return [word for word in words[::JUDGED_EVERY] if word.lower() not in _heard_words()]
    return [word for number, word in enumerate(words) if number % JUDGED_EVERY]


@cache
def _heard_words() -> set[str]:
    """All words of any kind that are trained on, and those of the news and of all templates, in small letters."""
    trained = [word for kind in WORDS for word in word_list(kind, judged=False)]
    news = [*DENSE, *NEWS_TEMPLATES, *(text for texts in SLOTS.values() for text in texts)]
    return set(re.findall(r"[a-z']+", " ".join([*trained, *news, *TEMPLATES]).lower()))


def _in_turn(words: list[str], random: np.random.Generator) -> Iterator[str]:
    """The words for ever, shuffled anew in each round, so that all are used equally often."""
    while True:
        yield from (words[i] for i in random.permutation(len(words)))


def write_word_sentences(num: int, *, judged: bool, seed: int = 0) -> list[str]:
    """``num`` sentences whose nouns, verbs and so on are all kept for judging, or none of them."""
    random = np.random.default_rng([seed, judged])
    words = {kind: _in_turn(word_list(kind, judged=judged), random) for kind in WORDS}
    return [_fill(TEMPLATES[number % len(TEMPLATES)], words) for number in range(num)]


def _fill(template: str, words: dict[str, Iterator[str]]) -> str:
    return polish(re.sub(r"\{(\w+)\}", lambda slot: next(words[slot[1]]), template))
