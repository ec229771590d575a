"""The gateway as a server, with OpenAI's chat protocol in front and behind; needs the extra `gateway`."""
