"""Generation: out of a model of whole sequences the program that reads one token and knows those before it.

Works on graphs and operators' records alone; nothing of training, targets or artifacts."""

from .decoding import POSITION, TOKEN, Decoder, decoder_of
from .inputs import IDS, INPUTS, MASK, NUMBERS, POSITIONS

__all__ = ["IDS", "INPUTS", "MASK", "NUMBERS", "POSITION", "POSITIONS", "TOKEN", "Decoder", "decoder_of"]
