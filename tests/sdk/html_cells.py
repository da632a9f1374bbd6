"""The contents of the tables in a piece of HTML."""

from html.parser import HTMLParser


class Cells(HTMLParser):
    """The text of every table cell, row by row, and every tag."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.tags, self._is_in_cell = [], [], False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._is_in_cell = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._is_in_cell = False

    def handle_data(self, data):
        if self._is_in_cell:
            self.rows[-1][-1] += data
