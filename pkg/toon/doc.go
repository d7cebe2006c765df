// Package toon writes JSON as Token-Oriented Object Notation and reads it back.
//
// TOON says once what JSON repeats: a list of like objects is a table, with the
// names of its columns in the head and a line for each object. [Encode] and
// [Decode] follow version 3.3 of its specification, options included, and have
// JSON text on the other side, so that the order of keys and the digits of
// numbers survive.
//
//	{"users":[{"id":1,"name":"Ann"},{"id":2,"name":"Bo"}]}
//
//	users[2]{id,name}:
//	  1,Ann
//	  2,Bo
//
// # Numbers
//
// A number keeps all its digits. It is written in one form in both directions:
// without an exponent from 1e-6 to 1e21, without needless zeros, and 0 for -0;
// beyond that with an exponent where that is shorter. One whose exponent is over
// 1e15 cannot be written, and is read as a string.
//
// # What cannot be written
//
// JSON may hold what TOON cannot: an object with a key twice, half a surrogate
// pair, and more levels than [MaxDepth]. Encode refuses it, and the caller has
// the JSON still.
//
// # Reading
//
// The text to read is untrusted. Decode is bounded in depth and in the size of
// both its input and its output, which a table with long names makes larger than
// the text. Unless it is lenient, counts, indents, duplicate keys and blank lines
// in arrays must be as the specification wants them. Tabs before a line are then
// an error; a lenient Decode passes over them.
//
// Functions of this package may be called from several goroutines.
package toon
