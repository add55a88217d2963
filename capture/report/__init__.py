"""Reports: what one compiled function became, as data, as text and as one HTML page.

In: `data.Report`, plain data that the layers above fill. Out: text (`text.py`) and a page (`page.py`). Nothing here knows a
graph or a tensor.
"""
