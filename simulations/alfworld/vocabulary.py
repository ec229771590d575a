"""The words of the household: which things are food, which places open, what brings about a state."""

from __future__ import annotations

FOOD = frozenset({"apple", "bread", "egg", "lettuce", "potato", "tomato"})

KITCHENWARE = frozenset(
    {
        "bowl",
        "butterknife",
        "cup",
        "dishsponge",
        "fork",
        "glassbottle",
        "kettle",
        "knife",
        "ladle",
        "mug",
        "pan",
        "papertowelroll",
        "peppershaker",
        "plate",
        "pot",
        "saltshaker",
        "spatula",
        "spoon",
        "winebottle",
    }
)

TOILETRIES = frozenset(
    {
        "cloth",
        "handtowel",
        "plunger",
        "scrubbrush",
        "soapbar",
        "soapbottle",
        "spraybottle",
        "tissuebox",
        "toiletpaper",
        "toiletpaperroll",
        "towel",
    }
)

HOUSEHOLD = TOILETRIES | {"candle", "houseplant", "pillow", "statue", "teddybear", "vase", "wateringcan"}
"""What a bathroom or a shelf has, and no one carries about."""

OPENABLE = frozenset({"cabinet", "drawer", "fridge", "laundryhamper", "microwave", "safe"})

SURFACES = frozenset(
    {
        "armchair",
        "bed",
        "coffeetable",
        "countertop",
        "desk",
        "diningtable",
        "dresser",
        "ottoman",
        "shelf",
        "sidetable",
        "sofa",
        "tvstand",
    }
)

APPLIANCES = frozenset({"coffeemachine", "fridge", "microwave", "sinkbasin", "stoveburner", "toaster"})

LAMPS = frozenset({"desklamp", "floorlamp"})

TOOL_OF_STATE = {"clean": "sinkbasin", "hot": "microwave", "cool": "fridge"}
"""Where an object gets the state that a task asks for."""

VERB_OF_STATE = {"clean": "clean", "hot": "heat", "cool": "cool"}
"""The command that gives an object the state that a task asks for."""
