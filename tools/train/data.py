"""The corpus as token streams: what is trained on, what is held out, and how windows are drawn."""
import torch

END_OF_TEXT = 0
HELD_OUT_SHARE = 0.05
BOOK_SEPARATOR = "\x01"


def held_out_split(tokenizer, corpus_path):
    """Two int64 streams, (training, held out). Each book starts with <|endoftext|>; the last 5 % of
    each book's tokens are held out, so that the held-out text has all six subjects in it."""
    training, held_out = [], []
    with open(corpus_path, encoding="utf-8") as corpus:
        books = corpus.read().split(BOOK_SEPARATOR)
    for book in books:
        ids = [END_OF_TEXT] + tokenizer.encode(book)
        cut = int(len(ids) * (1 - HELD_OUT_SHARE))
        training += ids[:cut]
        held_out += ids[cut:]
    return torch.tensor(training), torch.tensor(held_out)


class WindowSampler:
    """Draws training windows of context + 1 tokens.

    Half of a batch starts anywhere. The other half is <|endoftext|> and then text from the start of a
    paragraph: without it the token would stand before six books only, and a prompt that begins with it
    (the held-out excerpt, or any client that sends a BOS) would meet an untrained embedding.
    """

    def __init__(self, stream, newline, context, batch, seed):
        self.stream, self.context, self.batch = stream, context, batch
        starts = (stream == newline).nonzero().flatten() + 1
        self.paragraph_starts = starts[starts < len(stream) - context]
        self.offsets = torch.arange(context + 1)
        self.generator = torch.Generator().manual_seed(seed)

    def random_below(self, limit, count):
        return torch.randint(0, limit, (count,), generator=self.generator)

    def draw(self):
        """[batch][context + 1]"""
        n_paragraphs = self.batch // 2
        anywhere = self.random_below(len(self.stream) - self.context, self.batch - n_paragraphs)
        picked = self.random_below(len(self.paragraph_starts), n_paragraphs)
        # One before the paragraph, whose newline then gives its place to <|endoftext|>.
        before = self.paragraph_starts[picked] - 1
        windows = self.stream[torch.cat([before, anywhere])[:, None] + self.offsets]
        windows[:n_paragraphs, 0] = END_OF_TEXT
        return windows
