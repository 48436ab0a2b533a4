"""Sentences for the speech corpus: news-like, generated from our own templates.

Plus some that are dense in rare sounds.
"""

import re

import numpy as np

SLOTS: dict[str, tuple[str, ...]] = {
    "person": (
        "Mary Bishop",
        "Paul Abraham",
        "the prime minister",
        "a spokeswoman",
        "Judge Harvey",
        "the mayor",
        "Doctor Omar Weber",
        "Sophie Fairchild",
        "the farmers' union",
        "Bob Templeton",
        "Amy Vaughan",
        "the head teacher",
        "Peter Zhang",
        "Ruth Boyle",
    ),
    "place": (
        "Birmingham",
        "the capital",
        "Mumbai",
        "Portsmouth",
        "Zurich",
        "the western suburbs",
        "Appleby",
        "the old harbour",
        "Vienna",
        "Oakwood Valley",
        "the northern coast",
        "Philadelphia",
        "Jamaica",
        "the central square",
        "Banbury",
    ),
    "thing": (
        "budget",
        "railway bridge",
        "museum",
        "public library",
        "vaccine",
        "power plant",
        "ferry service",
        "football club",
        "shipping company",
        "weather station",
        "bumper harvest",
        "housing project",
        "airport",
        "open air theatre",
        "paper mill",
    ),
    "adjective": (
        "unusual",
        "remarkable",
        "beautiful",
        "fragile",
        "enormous",
        "popular",
        "impossible",
        "thorough",
        "joyful",
        "cautious",
        "ambitious",
        "powerful",
        "smooth",
        "rough",
        "vibrant",
        "bitter",
    ),
    "time": (
        "this morning",
        "on Monday",
        "before breakfast",
        "over the weekend",
        "by the end of March",
        "at five o'clock",
        "in the summer of next year",
        "shortly after midnight",
        "on Thursday afternoon",
        "within two months",
    ),
    "number": (
        "seven",
        "forty five",
        "three hundred",
        "about a thousand",
        "sixteen",
        "two and a half million",
        "nearly ninety",
        "twenty two",
        "eleven",
        "fifty eight",
    ),
    "people": (
        "workers",
        "families",
        "passengers",
        "young people",
        "voters",
        "visitors",
        "members",
        "engineers",
        "children",
        "shop owners",
        "beekeepers",
        "farmers",
        "firefighters",
        "musicians",
    ),
    "action": (
        "welcomed the plan",
        "moved to safer ground",
        "asked for more help",
        "put up a brave fight",
        "opened their doors",
        "gave a warm reply",
        "stopped work",
        "began to rebuild",
        "voted against the measure",
        "shared the good news",
        "saw the river rise",
        "looked for a way home",
        "bought cheaper food",
        "paid a heavy price",
    ),
    "weather": (
        "heavy rain",
        "warm sunshine",
        "thick fog",
        "a fresh breeze",
        "a few showers",
        "bright spells",
        "freezing wind",
        "sleet and snow",
        "patchy cloud",
        "a humid haze",
    ),
    "cause": (
        "a power failure",
        "the price of oil",
        "a broken pump",
        "public pressure",
        "a rather busy week",
        "the change of government",
        "poor visibility",
        "an error in the software",
        "above average demand",
        "the shape of the coast",
    ),
}

TEMPLATES = (
    "Good evening, here is the news from {place}.",
    "{person} said that {number} {people} {action} {time}.",
    "The {adjective} {thing} in {place} will open {time}.",
    "Because of {cause}, {number} {people} {action}.",
    "In {place}, {weather} is expected {time}, with {weather} to follow.",
    "Could the {thing} become more {adjective} than before? {person} thinks so.",
    "After {cause}, the {thing} was closed, and {people} {action}.",
    "{number} {people} from {place} {action}, reports {person}.",
    "We go now to {place}, where {people} {action} {time}.",
    "Police believe that {cause} led to the fire at the {thing}.",
    "The {thing} costs {number} pounds a month, which {people} call {adjective}.",
    "And finally, an {adjective} story about a {thing} near {place}.",
    "{person} will visit {place} {time} to talk about the {thing}.",
    "Both sides agreed {time}; the {people} {action}.",
    "Why did {number} {people} leave {place}? Many point to {cause}.",
    "Shares in the {thing} rose by {number} percent {time}.",
    "There will be {weather} over {place}, moving east {time}.",
    "It was {adjective}, said {person}, and {people} {action}.",
    "The judge gave {person} {number} days to repair the {thing}.",
    "You can watch the {adjective} pictures from {place} {time}.",
    "Every member of the {thing} {action}, whatever {person} may say.",
    "Scientists in {place} have found a {adjective} way to improve the {thing}.",
    "{weather} kept {people} away from the {thing} {time}.",
    "I am told that {person} and {number} {people} {action}.",
    "Thank you for watching. We will be back {time} with more about {place}.",
    "Our next guest, {person}, runs a {adjective} {thing}.",
    "Prices fell {time}, mainly because of {cause}.",
    "Nobody was hurt when the {thing} in {place} failed {time}.",
    "The vote was close: {number} for, {number} against.",
    "For {people} in {place}, {cause} means a {adjective} choice.",
)

DENSE = (
    "Measured pleasure, usual leisure, and a treasure beyond vision.",
    "Peter's baby brother bumped a big brown pumpkin on the porch.",
    "My mother made warm plum jam for Emma's summer camp.",
    "Five fine foxes van through four very fresh furrows.",
    "The thick cloth, though smooth, gathered both froth and moth.",
    "Joy chose a cheap jade chair, and George judged it gently.",
    "She shall surely wash the shiny shells in the ocean.",
    "Yes, you used yellow yarn for the young yak yesterday.",
    "We were always away when the wild wind would whistle.",
    "Royal boys enjoy noisy toys; loud owls howl about the house.",
    "A good cook could look through two new blue books.",
    "Rarely are our roaring rivers really rural.",
    "Hungry kings sing long songs, thinking of nothing.",
    "How high a house, however heavy, holds a hundred hats?",
    "Please probe above the bump, and map the deep blue maple swamp.",
    "Zebras doze as breezes ease the haze of dizzy days.",
    "Lovely little lilies fall, leaving all the hills yellow.",
    "Cake, coke, kick, quick; a crooked cook kept the keys.",
    "Today at ten, Todd dined with the wet, tired editor.",
    "Umbrella, ample, symbol, number: mumble them more promptly.",
)


MOST_TRIES = 100  # for another filling of a template; then it counts as used up


def _fill(template: str, random: np.random.Generator) -> str:
    text = template
    for slot, words in SLOTS.items():
        while "{" + slot + "}" in text:
            text = text.replace("{" + slot + "}", words[int(random.integers(len(words)))], 1)
    return polish(text)


def polish(text: str) -> str:
    """A filled template with "an" where a vowel follows, and a capital letter in front."""
    text = re.sub(r"\b([Aa]) (?=[aeiouAEIOU])", r"\1n ", text)
    return text[0].upper() + text[1:]


def write_sentences(num: int, seed: int = 0) -> list[str]:
    """``num`` different sentences: the dense ones, then filled templates in turn."""
    random = np.random.default_rng(seed)
    sentences = list(DENSE)
    skipped = tries = 0
    while len(sentences) < num:
        text = _fill(TEMPLATES[(len(sentences) + skipped) % len(TEMPLATES)], random)
        tries += 1
        if text not in sentences:
            sentences.append(text)
            tries = 0
        elif tries == MOST_TRIES:
            skipped, tries = skipped + 1, 0
    return sentences[:num]
