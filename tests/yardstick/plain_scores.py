"""HotpotQA's answer scores, character by character, from the paper's description; shares no line with the scorers."""

from __future__ import annotations

ASCII_MARKS = [chr(code) for code in (*range(33, 48), *range(58, 65), *range(91, 97), *range(123, 127))]
ARTICLES = ("a", "an", "the")


def plain_words(text: str) -> list[str]:
    """The normalised tokens: lower case, ASCII marks deleted, articles that stand as whole words deleted."""
    kept = [character for character in text.lower() if character not in ASCII_MARKS]
    words, word = [], ""
    for character in [*kept, " "]:
        if character.isalnum() or character == "_":
            word += character
            continue
        words += [" " if word in ARTICLES else word, character]
        word = ""
    return "".join(words).split()


def plain_exact(prediction: str, answer: str) -> float:
    """1 if the tokens are the same ones in the same order."""
    return 1.0 if " ".join(plain_words(prediction)) == " ".join(plain_words(answer)) else 0.0


def plain_f1(prediction: str, answer: str) -> float:
    """Twice the common tokens over all tokens; a closed answer counts only when equal."""
    mine, theirs = plain_words(prediction), plain_words(answer)
    if mine != theirs and (mine in [["yes"], ["no"], ["noanswer"]] or theirs in [["yes"], ["no"], ["noanswer"]]):
        return 0.0
    left, common = list(theirs), 0
    for word in mine:
        if word in left:
            left.remove(word)
            common += 1
    return 2 * common / (len(mine) + len(theirs)) if common else 0.0
