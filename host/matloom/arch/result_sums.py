"""Constants of the tables with which POST adds two bytes (`Addend.RESULT`).

The 256 bytes of a table are 16 rows of four little-endian words of 32 bits. Nibbles of the two
bytes select rows: the low nibble of POST's result the row of word 0, its high nibble that of word
1, the low nibble of the other byte that of word 2, and its high nibble that of word 3. The four
words are added modulo 2**32. Bits 22 and up of the sum are a signed number, which is limited to the
range of int8.
"""

#: Bits of a sum below the result, rows of a table, and words of a row.
FRACTION_BITS, ROWS, WORDS = 22, 16, 4
