"""A run in the forms that others read: ids, tables, links, a sheet, a Hugging Face dataset, FiftyOne."""
