// Package answercost reads what a request to a language model and its answer cost, while the
// answer passes through: from the numbers in the answer, in a JSON body or in server-sent
// events, by the names of OpenAI, of Anthropic, or by paths of one's own.
//
//	meter := shape.Meter(asked, header)
//	meter.Write(part) // each part of the body, as it passes
//	used := meter.Close()
//	tokens := shape.Cost(answercost.Total, used.Counts)
//
// Nothing of a body is kept but the number or name that is being read, so bodies of any size
// pass. What an answer does not tell, because it was cut off or its provider is not asked for it,
// is guessed from what was seen: see Count. It knows no limits; package costlimit charges
// what is read here.
package answercost
