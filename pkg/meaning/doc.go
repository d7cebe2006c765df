// Package meaning gives short texts vectors that are near one another for texts
// that mean alike, whatever their words.
//
// A text is cut into word pieces; each has a small vector, distilled from a
// sentence model beforehand (distill.py), and a text's vector is their sum. The
// vectors are part of the program: nothing is fetched, started or learnt when it
// runs. They know English, and little of other languages. NOTICE.md says whose
// they are.
//
//	text -> words -> word pieces -> their vectors -> sum -> unit length
//
// Everything here is safe for concurrent use.
package meaning
