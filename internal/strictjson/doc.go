// Package strictjson reads the JSON that comes in, wherever it comes in. What two
// readers could take for two things is refused, with the place and what to do:
// members that are there twice or in another case, text that is not UTF-8, more
// than one value, and what is nested without end.
//
// Scanner is for who reads without memory of its own, Decode for who reads into a
// struct, and Valid for who hands the text to another reader.
package strictjson
