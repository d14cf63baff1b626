"""Korean particles, whose form depends on the pronunciation of the word before them.

In a PDF luatexko chooses them; these are its rules for hangul, digits and Latin letters.
"""

# The forms after a vowel, after ㄹ, and after another consonant.
_FORMS = {
    **dict.fromkeys("은는", ("는", "은", "은")),
    **dict.fromkeys("을를", ("를", "을", "을")),
    **dict.fromkeys("와과", ("와", "과", "과")),
    **dict.fromkeys("이가", ("가", "이", "이")),
    "으": ("", "", "으"),
    "로": ("로", "로", "으로"),
    "라": ("라", "이라", "이라"),
}
# Before another syllable, as in 이다.
_COPULA = ("", "이", "이")
PARTICLES = "".join(_FORMS)
_VOWEL, _RIEUL, _CONSONANT = range(3)
_FIRST, _LAST, _FINALS, _RIEUL_FINAL = 0xAC00, 0xD7A3, 28, 8
# 영, 삼, 육, 엠 and 엔; 일, 칠, 팔 and 엘. All other digits and letters end in a vowel.
_ENDINGS = {**dict.fromkeys("036MNmn", _CONSONANT), **dict.fromkeys("178Ll", _RIEUL)}


def particle(syllable: str, before: str, after: str = "") -> str:
    """Return the form of a particle between two texts.

    ``syllable``: its first syllable in any form, one of ``PARTICLES``. ``before``: the text before
    it. Signs and brackets at the end of it are silent. ``after``: the text after it: 이 before
    another syllable is that of 이다.
    """
    forms = _COPULA if syllable == "이" and _is_hangul(after[:1]) else _FORMS[syllable]
    return forms[_ending(before)]


def _is_hangul(letter: str) -> bool:
    return bool(letter) and _FIRST <= ord(letter) <= _LAST


def _ending(text: str) -> int:
    """Return the kind of the last sound of a text."""
    for letter in reversed(text):
        if _is_hangul(letter):
            final = (ord(letter) - _FIRST) % _FINALS
            return _VOWEL if not final else _RIEUL if final == _RIEUL_FINAL else _CONSONANT
        # The percent sign is pronounced 퍼센트.
        if letter.isalnum() or letter in "%µ":
            return _ENDINGS.get(letter, _VOWEL)
    return _CONSONANT
