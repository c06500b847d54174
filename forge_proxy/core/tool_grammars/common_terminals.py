"""The terminals that a grammar may import from Lark's library `common`, in Lark's syntax."""

from __future__ import annotations

from collections.abc import Mapping

COMMON_TERMINALS: Mapping[str, str] = {
    "DIGIT": '"0".."9"',
    "HEXDIGIT": '"a".."f" | "A".."F" | DIGIT',
    "INT": "DIGIT+",
    "SIGNED_INT": '("+" | "-")? INT',
    "DECIMAL": 'INT "." INT? | "." INT',
    "FLOAT": 'INT ("e" | "E") SIGNED_INT | DECIMAL (("e" | "E") SIGNED_INT)?',
    "SIGNED_FLOAT": '("+" | "-")? FLOAT',
    "NUMBER": "FLOAT | INT",
    "SIGNED_NUMBER": '("+" | "-")? NUMBER',
    "ESCAPED_STRING": r'/"(?:[^"\\\n]|\\[^\n])*"/',
    "LCASE_LETTER": '"a".."z"',
    "UCASE_LETTER": '"A".."Z"',
    "LETTER": "UCASE_LETTER | LCASE_LETTER",
    "WORD": "LETTER+",
    "CNAME": r'("_" | LETTER) ("_" | LETTER | DIGIT)*',
    "WS_INLINE": r'(" " | /\t/)+',
    "WS": r"/[ \t\f\r\n]/+",
    "CR": r"/\r/",
    "LF": r"/\n/",
    "NEWLINE": "(CR? LF)+",
    "SH_COMMENT": r"/#[^\n]*/",
    "CPP_COMMENT": r"/\/\/[^\n]*/",
    "C_COMMENT": r"/\/\*([^*]|\*+[^*\/])*\*+\//",
    "SQL_COMMENT": r"/--[^\n]*/",
}
