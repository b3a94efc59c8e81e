#!/usr/bin/env python3
"""Makes the corpus from the data file of Debian's package r-cran-janeaustenr. Needs no R.

The package holds Jane Austen's six novels, public domain, as one character vector of lines each, in R's
lazy-load database: records of a 4-byte length and a zlib stream, which holds R's XDR serialisation.

Usage: prepare.py RDATA_RDB OUT
       RDATA_RDB is usr/lib/R/site-library/janeaustenr/data/Rdata.rdb of the package
"""
import argparse
import pathlib
import re
import struct
import zlib

# By the first line of each book, in the order of publication that the package's austen_books() has.
BOOKS = ("SENSE AND SENSIBILITY", "PRIDE AND PREJUDICE", "MANSFIELD PARK", "EMMA", "NORTHANGER ABBEY",
         "Persuasion")
BOOK_SEPARATOR = "\x01"
R_CHARACTER_VECTOR = 16
R_STRING = 9
R_MISSING_STRING = -1


def records(database):
    """The decompressed records of a lazy-load database."""
    while database:
        stream = zlib.decompressobj()
        yield stream.decompress(database[4:])
        database = stream.unused_data


def character_vector(record):
    """The strings of one record, or None if it holds something other than a character vector."""
    # "X\n", format version, writer's and reader's R versions; version 3 adds the native encoding.
    version, _, _ = struct.unpack_from(">iii", record, 2)
    at = 14
    if version == 3:
        at += 4 + struct.unpack_from(">i", record, at)[0]
    flags, n_strings = struct.unpack_from(">ii", record, at)
    if flags & 0xFF != R_CHARACTER_VECTOR:
        return None
    at += 8
    strings = []
    for _ in range(n_strings):
        flags, length = struct.unpack_from(">ii", record, at)
        at += 8
        if flags & 0xFF != R_STRING or length == R_MISSING_STRING:
            raise ValueError(f"offset {at}: expected a string")
        strings.append(record[at: at + length].decode("utf-8"))
        at += length
    return strings


def paragraphs(lines):
    """Blank lines part paragraphs; within one, any white space becomes one blank."""
    unwrapped = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", "\n".join(lines)))
    return "\n".join(paragraph for paragraph in unwrapped if paragraph)


def corpus(database):
    book_of_title = {}
    for record in records(database):
        lines = character_vector(record)
        if lines:
            book_of_title[lines[0]] = paragraphs(lines)
    text = BOOK_SEPARATOR.join(book_of_title[title] for title in BOOKS)
    # Plain text marks italics with underscores.
    return re.sub(r"_([^_\n]{1,200})_", r"\1", text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rdata_rdb", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    args.out.write_text(corpus(args.rdata_rdb.read_bytes()), encoding="utf-8")


if __name__ == "__main__":
    main()
