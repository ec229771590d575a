"""All HTML of the library: templates, and the values they are filled with.

Text is escaped by the template engine, so that nothing a user named can become markup.
"""
