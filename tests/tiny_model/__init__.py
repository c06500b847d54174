"""How the tiny test model is made and measured; the model itself is package data of `forge_proxy`."""
