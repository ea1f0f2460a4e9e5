package answercost

// OpenAI returns the counts of OpenAI's chat completions, completions, embeddings and
// responses, and of the many that answer as they do: input and output. A stream of chat
// completions tells them when the request has stream_options.include_usage; without it they
// are guessed.
func OpenAI() []Count {
	return []Count{
		{
			Name:      "input",
			Paths:     []string{"usage.prompt_tokens", "usage.input_tokens", "response.usage.input_tokens"},
			OfRequest: true,
		},
		{
			Name:  "output",
			Paths: []string{"usage.completion_tokens", "usage.output_tokens", "response.usage.output_tokens"},
			Text: []string{
				// Chat completions, whole and in a stream.
				"choices.*.message.content", "choices.*.delta.content",
				"choices.*.message.reasoning_content", "choices.*.delta.reasoning_content",
				"choices.*.message.tool_calls.*.function.arguments", "choices.*.delta.tool_calls.*.function.arguments",
				// Completions.
				"choices.*.text",
				// Responses, whole and in a stream.
				"output.*.content.*.text", "output.*.arguments", "delta",
			},
			Ceiling: []string{"max_completion_tokens", "max_tokens", "max_output_tokens"},
			Usual:   usualOutput,
		},
	}
}

// Anthropic returns the counts of Anthropic's messages: input, output, and the parts of the
// question that were written to and read from the cache, which input does not have. In a
// stream the first event tells of the question, and later ones of all the output so far.
func Anthropic() []Count {
	return []Count{
		{Name: "input", Paths: ofMessage("input_tokens"), OfRequest: true},
		{
			Name:    "output",
			Paths:   ofMessage("output_tokens"),
			Text:    []string{"content.*.text", "content.*.thinking", "delta.text", "delta.thinking", "delta.partial_json"},
			Ceiling: []string{"max_tokens"},
			Usual:   usualOutput,
		},
		{Name: "cache_write", Paths: ofMessage("cache_creation_input_tokens")},
		{Name: "cache_read", Paths: ofMessage("cache_read_input_tokens")},
	}
}

// usualOutput is the estimate of an answer whose request has no ceiling, in tokens: a page
// or two.
const usualOutput = 1000

// ofMessage are the paths of a number of a message, which stands whole in an answer, and in
// the first event of a stream one level down.
func ofMessage(name string) []string {
	return []string{"usage." + name, "message.usage." + name}
}
