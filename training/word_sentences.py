"""Sentences of many different words, for the speech corpus.

What they say matters less than that every sound meets every other. One word in seven of each kind is kept for judging,
and never trained on.
"""

import re
from collections.abc import Iterator

import numpy as np

from training.sentences import polish

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
        walnut weasel whale whistle widow willow window wizard workshop yacht yard yogurt zebra zipper
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
        untied urged valued visited wanted warned washed watched weighed whispered wiped wrapped wrote
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
        useful vague violent warm weary weird wicked wide wise wooden worthy young
    """,
    "adverb": """
        afterwards almost always anyway badly bravely calmly clearly completely cruelly daily deeply early
        easily everywhere exactly finally gladly happily however indeed instead lately loudly maybe mostly never
        nowadays often once openly overnight perhaps politely probably quietly rapidly rarely sadly seldom
        simply slowly softly someday sometimes suddenly therefore together tonight truly twice usually vaguely
        warmly wisely yesterday
    """,
    "place": """
        Africa Amsterdam Athens Australia Bavaria Belgium Bombay Boston Brazil Cairo California Canada Chicago
        Cuba Denmark Dublin Egypt Florida Geneva Georgia Hamburg Havana Houston Hungary Iceland India Ireland
        Jerusalem Kansas Kenya Lisbon Liverpool London Madrid Malta Manchester Mexico Morocco Moscow Naples
        Norway Oxford Paris Peru Poland Prague Quebec Rome Scotland Seoul Spain Sweden Texas Tokyo Toronto
        Vermont Virginia Wales Warsaw Wyoming York Zambia
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
)


def word_list(kind: str, *, judged: bool) -> list[str]:
    """Words of a kind: those kept for judging, or all others."""
    words = WORDS[kind].split()
    return [word for number, word in enumerate(words) if (number % JUDGED_EVERY == 0) == judged]


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
