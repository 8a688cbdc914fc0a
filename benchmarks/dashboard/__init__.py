"""How fast the tabs are in a real browser, beside other tools on the same models. See ``__main__.py``."""
