#!/usr/bin/env python3
"""Writes tests/golden/tokenizer from the PyPI packages `tokenizers` and `jinja2`; never needed to build or run.

    python3 -m venv .venv && .venv/bin/pip install tokenizers jinja2 && .venv/bin/python tools/make_tokenizer_fixture.py

qwen2/tokenizer.json  a small tokenizer of the Qwen2 kind: its pattern, NFC, added tokens, merges learnt from the texts below
smollm/tokenizer.json one of the SmolLM kind: single digits, then GPT-2's pattern; no normalizer, some bytes without a token
llama3/tokenizer.json one of the Llama 3 kind: its pattern, tokens that no merge reaches and ignore_merges, a bos template
cases.json            {"demo": …, "qwen2": …, "smollm": …, "llama3": …}: for each tokenizer a list of {"text", "ids", "decoded", "decoded_skipping_special"};
                      the last two are left out where an added token is not ASCII: `tokenizers` takes its é for a byte
chat.json             for each kind of chat template {"source", "cases": [{"messages", "rendered"}]}, rendered by jinja2; it asks for an answer
                      where the last message is not the assistant's
"""
import json
import pathlib
import random
import unicodedata

import jinja2.sandbox
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/golden/tokenizer"
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3_PATTERN = PATTERN.replace(r"\p{N}|", r"\p{N}{1,3}|")
LLAMA3_SPECIALS = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
TEXTS = [
    "I'll say it's what they've done; we're sure you'd know I'm here, don't you? IT'S LOUD, THEY'LL SEE.",
    "def main():\n    for i in range(10):\n        print(i)\n\n\nif __name__ == '__main__':\r\n\tmain()\r\n",
    "Ünïcödé café naïve façade; Straße, Ångström, œuvre. Привет, мир! Γειά σου Κόσμε. שלום עולם. مرحبا بالعالم",
    "日本語のテキスト、中文文本，한국어 텍스트입니다。今日は良い天気ですね。我们去公园吧。안녕하세요 세계",
    "Emoji: 😀😃😄 👍🏽 👩‍👩‍👧‍👦 🇩🇪🇯🇵 ❤️ 🏳️‍🌈 done. नमस्ते दुनिया สวัสดีชาวโลก",
    "1234567890 3.14159 1,000,000 2024-05-06T07:08:09Z ½ ² Ⅷ ٣٤٥ १२३",
    "{\"name\": \"value\", \"list\": [1, 2, 3], \"nested\": {\"a\": null}}\n<p class=\"x\">text</p>\n",
]
HAND_MADE = [
    "", " ", "  ", "\n", "\r\n", "\n\n\n", " \n ", "\t\t x", "a", "a b", " a", "a ", "a  b", "a   b  ", "  leading", "trailing  ",
    "it's", "IT'S", "it'\u017f", "'S's'\u017f", "they'LL", "y'all'd've", "'", "''", "can't won't", "o'clock's", "'re 're", "’s",
    "123", "12a34", "1 2 3", "١٢٣", "½", "x²", "Ⅷ", "3.14", "a1b2",
    "a\u00a0b", "\u00a0", "\u2003x", "\u3000日", "\u0085x", "a\u1680b", "a\u180eb", "\u180e", "a\u200bb", "\ufeffx", "x\u2028y\u2029z", "\x0b\x0c\x1c\x1d\x1f.",
    "e\u0301", "caf\u00e9 cafe\u0301", "\u212b \u00c5 A\u030a", "\u1e9b\u0323", "q\u0307\u0323", "\uac00 \u1100\u1161", "\u1100\u1161\u11a8", "\u0958", "\u0915\u093c",
    "\u2126\u212a", "\ufb01", "\u0344", "\u0308\u0301", "a\u0315\u0300\u05ae\u0062", "\uf900", "\U0002f800", "\u0f71\u0f72\u0f74", "\u0cc6\u0cc2\u0cd5",
    "日本語", "日本 語", "今日は、良い天気！", "中文English混合123文字", "한국어 텍스트", "ภาษาไทย", "नमस्ते", "मैं हूँ", "العربية ١٢", "שָׁלוֹם",
    "😀", "😀😀", " 😀", "👩‍👩‍👧‍👦", "👍🏽!", "🇩🇪🇯🇵", "❤️", "🏳️‍🌈 x", "a😀b", "1️⃣", "\u200d", "x\u200dy", "\ufe0f",
    "...", "?!?!\n\n", "!!!\r\n\r\nx", " !", "  !", "=>\n", "#include <x>\n", "a->b", "(a)(b)", "$100%", "---\n---", "—–", "„Zitat“",
    "\x04", "t\x13h\x1de", "\U00040000", "\U00085123 x", "\0", "a\0b", "\x01\x7f\x80", "\ufffd", "\uffff", "\U0010ffff", "\ue000", "\U000f0000", "\u0378",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>", "<|im_end|><|im_end|>", "<|im_en|>", "<|im_end", "<<|im_end|>>",
    "a<|endoftext|>b", "<|endoftext|> <|endoftext|>", "<|im_start|>  <|im_end|>", " <|im_start|> ", "<|MASK|>x",
    "<tool>x</tool>", "<tool><tool_call>", "<tool_call>", "<tool_cal>", "cafe\u0301tok caf\u00e9tok", "x\u00e9\u0301",
    "def f(x):\n    return x\n", "\tif (a)\r\n\t\tb;\r\n", "x  \n  y", "x \n\n \n y", "   \n   \n", " \t \t", "a\n b", "a\r b",
    "the " * 40, "ab" * 50, " " * 70, "\n" * 40, "a" * 100, "9" * 30, "日" * 40, "e\u0301" * 20, "Ġ Ċ ĉ č", "ÀÁÂ", "ſ", "K", "ß ẞ", "İı",
]

PLAIN_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
DEFAULT_SYSTEM_TEMPLATE = r"""
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {{- "# Tools\n\nCall \"one\" of the user's tools." }}
    {{- '<|im_end|>\n' }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- "<|im_start|>system\nYou're kind and 'brief'.<|im_end|>\n" }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant") %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""
THINKING_TEMPLATE = r"""
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- if loop.last %}
            {{- '<|im_start|>' + message.role + '\n<think>\n' + '' + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}
"""
FIRST_SYSTEM_TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helper.<|im_end|>\\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
LLAMA3_TEMPLATE = (
    "{% set turns = messages %}{% for message in turns %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
TEMPLATES = {"plain": PLAIN_TEMPLATE, "default_system": DEFAULT_SYSTEM_TEMPLATE, "thinking": THINKING_TEMPLATE,
             "first_system": FIRST_SYSTEM_TEMPLATE, "llama3": LLAMA3_TEMPLATE}
CONVERSATIONS = [
    [("user", "Hi")],
    [("user", "\n  two words\n"), ("assistant", "Hello. ")],
    [("user", "\u3000\x1f\u200a\u00a0 a \u2028\x85\ufeff"), ("assistant", "\u180e b\u202f\x0b")],
    [("system", "Be 'brief'."), ("user", "Hi"), ("assistant", "\n\nHello"), ("user", "Bye")],
    [("user", "Hi"), ("assistant", "Hello"), ("system", "Now rhyme."), ("user", "Bye"), ("assistant", "")],
    [("assistant", "Welcome."), ("assistant", "Ask.")],
]


def random_texts(generator, count):
    """Strings of assigned characters of every plane, mixed with ASCII, spaces and marks."""
    assigned = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ("Cn", "Cs")]
    pools = ["abcxyz ABC", " \t\n\r", "0123456789", "'.,;:!?-_()[]{}<>", assigned[0x80:0x800], assigned[0x800:20000], assigned[20000:140000],
             assigned[140000:], ["\u0301", "\u0308", "\u0327", "\u200d", "\ufe0f"], ["<|im_end|>", "'s", "'LL", "tion", " the"]]
    for _ in range(count):
        yield "".join(generator.choice(generator.choice(pools)) for _ in range(generator.randint(1, 24)))


def qwen2_kind():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=620, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in ("<tool>", "<tool_call>", "</tool>")])
    tokenizer.add_tokens([AddedToken("cafe\u0301tok", normalized=True)])
    return tokenizer


def smollm_kind():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    missing = {"\u0104", "\u0106", "\u0113", "\u011d", "\u00f1", "\u00f2"}  # bytes 04, 06, 13, 1D, F1, F2
    alphabet = [character for character in pre_tokenizers.ByteLevel.alphabet() if character not in missing]
    trainer = trainers.BpeTrainer(vocab_size=560, initial_alphabet=alphabet, show_progress=False,
                                  special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    return tokenizer


def llama3_kind():
    """The words of the texts that training left apart become tokens without a merge: only ignore_merges finds them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3_PATTERN), behavior="isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=480, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    document = json.loads(tokenizer.to_str())
    document["model"]["ignore_merges"] = True
    vocab = document["model"]["vocab"]
    for word, _ in (pair for text in TEXTS[:3] for pair in tokenizer.pre_tokenizer.pre_tokenize_str(text)):
        vocab.setdefault(word, len(vocab))
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in LLAMA3_SPECIALS])
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                                      special_tokens=[("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))]),
    ])
    return tokenizer


def cases(tokenizer, texts):
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        case = {"text": text, "ids": ids}
        if all(token.content.isascii() for id, token in tokenizer.get_added_tokens_decoder().items() if id in ids):
            case |= {"decoded": tokenizer.decode(ids, skip_special_tokens=False), "decoded_skipping_special": tokenizer.decode(ids)}
        yield case


def chat_cases(source):
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(source)
    for conversation in CONVERSATIONS:
        messages = [{"role": role, "content": content} for role, content in conversation]
        asks = messages[-1]["role"] != "assistant"
        yield {"messages": messages, "rendered": template.render(messages=messages, add_generation_prompt=asks, enable_thinking=False,
                                                                    bos_token="<|begin_of_text|>")}


def main():
    generator = random.Random(7)
    texts = HAND_MADE + TEXTS + list(random_texts(generator, 150))
    tokenizers = {"demo": Tokenizer.from_file(str(ROOT / "examples/demo/target/tokenizer.json"))}
    for name, tokenizer in (("qwen2", qwen2_kind()), ("smollm", smollm_kind()), ("llama3", llama3_kind())):
        (OUT / name).mkdir(parents=True, exist_ok=True)
        tokenizer.save(str(OUT / name / "tokenizer.json"), pretty=False)
        tokenizers[name] = tokenizer
    found = {name: list(cases(tokenizer, texts)) for name, tokenizer in tokenizers.items()}
    lines = ",\n".join(json.dumps(name) + ": [\n" + ",\n".join(json.dumps(case) for case in items) + "\n]" for name, items in found.items())
    (OUT / "cases.json").write_text("{\n" + lines + "\n}\n")
    chat = {name: {"source": source, "cases": list(chat_cases(source))} for name, source in TEMPLATES.items()}
    (OUT / "chat.json").write_text(json.dumps(chat, indent=1) + "\n")


if __name__ == "__main__":
    main()
