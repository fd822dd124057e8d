"""3 x 3 convolutions by Winograd's minimal filtering."""
