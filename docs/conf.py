"""Settings of the documentation as a site: `make docs`."""

project = "PockEngine"
extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = project
