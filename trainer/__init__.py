"""A small LLM trainer to run out of the box and to take apart. Start reading at train.py."""
