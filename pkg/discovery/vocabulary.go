package discovery

import "slices"

// A vocabulary has every word of a catalogue's tools once, and the servers that
// have it, so that a search need not ask each server for each word. Whoever uses
// it holds the catalogue's mutex.
type vocabulary map[string]*term

// A term is one word.
type term struct {
	letters uint64 // see letterSet
	holders []holder
}

// A holder is a server's index that has a word, and where. The index's map says
// so too, but a search asks for some fifty words of hundreds of servers.
type holder struct {
	*index
	postings []posting
}

func (v vocabulary) add(ix *index) {
	for word, postings := range ix.postings {
		t := v[word]
		if t == nil {
			t = &term{letters: letterSet(word)}
			v[word] = t
		}
		t.holders = append(t.holders, holder{ix, postings})
	}
}

func (v vocabulary) remove(ix *index) {
	for word := range ix.postings {
		t := v[word]
		t.holders = slices.DeleteFunc(t.holders, func(h holder) bool { return h.index == ix })
		if len(t.holders) == 0 {
			delete(v, word)
		}
	}
}

// holders returns the servers' indexes that have a word.
func (v vocabulary) holders(word string) []holder {
	if t := v[word]; t != nil {
		return t.holders
	}
	return nil
}

// letterSet has a bit for each letter and digit of a word; other characters
// share some.
func letterSet(word string) uint64 {
	var set uint64
	for _, r := range word {
		set |= 1 << (uint32(r) % 61)
	}
	return set
}
