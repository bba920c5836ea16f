"""How the instruction data word their constraints: for training and test, and in other words for validation.

Keys are our short names. `HELD_OUT` constraints are in no training or validation example.
"""

from __future__ import annotations

TRAINED = {
    "lower": (
        "Use only lowercase letters.",
        "Write in all lowercase. No capital letters are allowed.",
        "Your whole response should be in lowercase letters.",
        "Do not use any capital letters.",
    ),
    "upper": (
        "Use only capital letters.",
        "Write everything in uppercase.",
        "Your whole response should be in all capital letters.",
        "Please answer in ALL CAPS.",
    ),
    "quotes": (
        "Wrap your entire response in double quotation marks.",
        'Put double quotes (") around your whole answer.',
        "Start and end your answer with a double quotation mark.",
    ),
    "end": (
        'Finish your response with this exact phrase: "{end_phrase}" No other words should follow it.',
        "End with the words: {end_phrase}",
        "The very last words of your answer must be: {end_phrase}",
    ),
    "title": (
        "Add a title wrapped in double angular brackets, such as <<a title>>.",
        "Your answer must contain a title in the form <<title>>.",
        "Give it a title and write the title inside << and >>.",
    ),
    "postscript": (
        "At the end of your response, add a postscript starting with {postscript_marker}",
        "Please add a postscript that begins with {postscript_marker}",
        "Close with a postscript ({postscript_marker}).",
    ),
    "no_comma": (
        "Do not use any commas.",
        "Avoid commas in your entire response.",
        "Your answer must not contain a single comma.",
    ),
    "bullets": (
        "Your answer must contain exactly {num_bullets} bullet points. Use the markdown bullet points such as: * This is a point.",
        "Write it as exactly {num_bullets} bullet points, each starting with *.",
        "Give a list of {num_bullets} bullet points and nothing else. Each one starts with an asterisk.",
    ),
    "paragraphs": (
        "There should be {num_paragraphs} paragraphs. Paragraphs are separated with the markdown divider: ***",
        "Split it into {num_paragraphs} paragraphs with *** between them.",
        "Write exactly {num_paragraphs} parts and put *** between the parts.",
    ),
    "keywords": (
        "Include these words: {keywords}.",
        "Your response must contain the words {keywords}.",
        "Make sure to mention each of these words: {keywords}.",
    ),
    "forbidden": (
        "Do not use the word {forbidden_words}.",
        "The word {forbidden_words} must not appear in your answer.",
        "Leave out the word {forbidden_words}.",
    ),
    "short": (
        "Answer with less than {num_words} words.",
        "Use fewer than {num_words} words.",
        "Your response should contain less than {num_words} words.",
    ),
    "highlights": (
        "Highlight at least {num_highlights} words with markdown, such as *highlighted*.",
        "Put asterisks around at least {num_highlights} words, *like* this.",
        "Mark at least {num_highlights} parts of your answer with markdown, i.e. *highlighted part*.",
    ),
}
VALIDATION = {
    "lower": ("Small letters only, please.", "I do not want to see a single capital letter in what you write."),
    "upper": ("Capitals only, please.", "Every letter that you write has to be a capital one."),
    "quotes": (
        "Enclose all that you say within double quotation marks.",
        'The reply as a whole has to stand between " and ".',
    ),
    "end": (
        'The reply has to close with "{end_phrase}" and nothing after it.',
        "Let these be the final words: {end_phrase}",
    ),
    "title": (
        "It needs a heading of the form <<heading>>.",
        "A title in double angle brackets, as in <<my title>>, is needed too.",
    ),
    "postscript": (
        "After that, there has to be a note that starts with {postscript_marker}",
        "Do not forget a {postscript_marker} note at the bottom.",
    ),
    "no_comma": ("Commas are forbidden.", "Write without the character ',' anywhere."),
    "bullets": (
        "Format: a markdown list with {num_bullets} items (* item), no more and no fewer.",
        "I need {num_bullets} bullets (*), not one more.",
    ),
    "paragraphs": (
        "Use the divider *** to make {num_paragraphs} separate paragraphs.",
        "Format: {num_paragraphs} paragraphs, divided by ***.",
    ),
    "keywords": ("Somewhere in it I want to read: {keywords}.", "Use all of the following terms: {keywords}."),
    "forbidden": ("One word is banned: {forbidden_words}.", "Get by without the word {forbidden_words}."),
    "short": ("Keep it under {num_words} words.", "{num_words} words would already be too many."),
    "highlights": (
        "Emphasise {num_highlights} or more words with *asterisks*.",
        "At least {num_highlights} words should be in *italics* (markdown).",
    ),
}
HELD_OUT = {
    "placeholders": (
        "The response must contain at least {num_placeholders} placeholders represented by square brackets, such as [address].",
        "Use at least {num_placeholders} placeholders in square brackets, like [name].",
    ),
    "two": (
        "Give two different responses, separated by 6 asterisk symbols: ******",
        "Answer twice, in two different ways, with ****** between the two answers.",
    ),
    "json": (
        "Wrap the entire output in JSON format.",
        "Your whole answer has to be valid JSON.",
    ),
    "sections": (
        "Your response must have {num_sections} sections. Mark the beginning of each section with {section_spliter} X, such as: {section_spliter} 1",
        "Divide it into {num_sections} sections that start with {section_spliter} 1, {section_spliter} 2 and so on.",
    ),
    "often": (
        "The word {keyword} should appear at least {frequency} times.",
        "Use the word {keyword} at least {frequency} times.",
    ),
    "first_word": (
        "There should be {num_paragraphs} paragraphs, separated by two new lines. Paragraph {nth_paragraph} must start with the word {first_word}.",
        "Write {num_paragraphs} paragraphs with an empty line between them. Begin paragraph {nth_paragraph} with the word {first_word}.",
    ),
    "options": (
        "Answer with one of these options: 'My answer is yes.', 'My answer is no.', 'My answer is maybe.'",
        "Choose your reply from: ('My answer is yes.', 'My answer is no.', 'My answer is maybe.')",
    ),
    "repeat": (
        "First repeat the request above word for word without change, then give your answer.",
        "Before you answer, repeat the request above exactly as it is.",
    ),
}
REPEATED = {
    "Name the first word of the text.": lambda words: words[0],
    "How does the text start?": lambda words: " ".join(words[:3]),
    "What is the last word of the text?": lambda words: words[-1].rstrip(".!?"),
    "Find the longest word in the text.": lambda words: max((word.strip(".,:;!?()") for word in words), key=len),
    "Count the words of this text.": lambda words: str(len(words)),
}
"""Requests about a text that an answer has to repeat, and the answers."""
ENDS = (
    "That is all.", "Thank you for reading.", "I hope this helps.", "Is there anything else?", "The end.", "Have a nice day.",
    "Let me know if you need more.", "Peace!", "Any other questions?", "Over and out.", "Stay safe.", "See you soon.",
    "This is the whole story.", "Good luck!", "Happy to help.", "What do you think?", "And so it goes.", "Take care.",
    "Please tell your friends.", "Nothing more to say.",
)  # fmt: skip
OTHER_ENDS = (
    "I rest my case.",
    "Can I help with anything else?",
    "Best wishes.",
    "Now you know.",
    "Enjoy your work.",
    "More tomorrow.",
)
NOTES = ("Thank you.", "Please keep this.", "I hope it helps.", "Write to me soon.", "See you.", "All is well.")
