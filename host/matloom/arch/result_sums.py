"""Sums of two bytes by the tables of POST: `Addend.RESULT`.

The 256 bytes of a table are 16 rows of four little-endian words of 32 bits. A sum adds four of
them: word 0 of the row that the low four bits of the result number, word 1 of the row of its high
bits, and words 2 and 3 in the same way for the other byte. Bits 22 and up of their sum, modulo
2**32, are a signed number, which is limited to int8.
"""

#: Bits of a word below the result, rows of a table, and words of a row.
FRACTION_BITS, ROWS, WORDS = 22, 16, 4
