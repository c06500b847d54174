"""OpenAI's chat completions API, with the variations of llama-server, vLLM, LM Studio and other model servers."""
