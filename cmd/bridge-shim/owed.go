package main

import (
	"bytes"
	"encoding/json"
	"sort"
)

const (
	// maxKept bounds the bytes of requests that are kept to be sent again, and
	// maxOwed how many these are. A daemon takes fewer at once.
	maxKept = 32 << 20
	maxOwed = 256

	// maxOwedID bounds the id of a request that is kept, in bytes.
	maxOwedID = 512

	// maxResends is to how many daemons a request is sent again. One that ends
	// each of them is not sent to more.
	maxResends = 3
)

// An owed is a request whose answer is owed to the agent.
type owed struct {
	id      []byte
	line    []byte // the request; nil if it was not kept
	n       int64  // counts the shim's requests
	at      place  // where it was sent first
	first   bool   // it is the agent's initialize
	resends int
}

// A place is where on its wire a request was: on which connection of the shim's,
// and in which line after the hello, both counted from 1. It is the name under
// which a daemon runs the request, and so tells it from others of the same id.
type place struct {
	Link int   `json:"link"`
	Line int64 `json:"line"`
}

// A resent tells a daemon of a request that another one may have begun.
type resent struct {
	ID json.RawMessage `json:"id"`
	place
}

// debts are the requests whose answers are owed. They are not safe for
// concurrent use.
type debts struct {
	byID    map[string]*owed
	kept    int             // bytes of their lines
	n       int64           // of the last
	settled map[string]bool // ids that were sent again and answered
}

func newDebts() *debts { return &debts{byID: map[string]*owed{}, settled: map[string]bool{}} }

// add takes in a request that is about to be sent. The line stays the debts'.
func (d *debts) add(m message, line []byte, at place) {
	d.pay(m.ID)
	delete(d.settled, string(m.ID))
	d.n++
	o := &owed{id: m.ID, n: d.n, at: at, first: m.Method == "initialize"}
	if d.kept+len(line) <= maxKept && len(d.byID) < maxOwed && len(o.id) <= maxOwedID {
		o.line = line
		d.kept += len(line)
	}
	d.byID[string(m.ID)] = o
}

// pay forgets a request, which was answered, cancelled or not sent.
func (d *debts) pay(id []byte) {
	if o := d.byID[string(id)]; o != nil {
		d.kept -= len(o.line)
		delete(d.byID, string(id))
		if o.resends > 0 {
			d.settled[string(id)] = true
		}
	}
}

// answered takes in an answer, and reports whether it is the first one.
func (d *debts) answered(id []byte) bool {
	if d.byID[string(id)] == nil && d.settled[string(id)] {
		return false
	}
	d.pay(id)
	return true
}

// list returns the requests in the order in which they were sent first.
func (d *debts) list() []*owed {
	var list []*owed
	for _, o := range d.byID {
		list = append(list, o)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].n < list[j].n })
	return list
}

// hopeless takes out the requests that can't be sent again.
func (d *debts) hopeless() []*owed {
	var list []*owed
	for _, o := range d.list() {
		if o.line == nil || o.resends >= maxResends {
			d.pay(o.id)
			list = append(list, o)
		}
	}
	return list
}

// all takes out every request.
func (d *debts) all() []*owed {
	list := d.list()
	for _, o := range list {
		d.pay(o.id)
	}
	return list
}

// resents is what a daemon is told of the requests that it will get again.
func (d *debts) resents() []resent {
	var list []resent
	for _, o := range d.list() {
		list = append(list, resent{ID: o.id, place: o.at})
	}
	return list
}

// again returns the lines of the requests, which are sent once more.
func (d *debts) again() []byte {
	var b bytes.Buffer
	for _, o := range d.list() {
		o.resends++
		b.Write(o.line)
	}
	return b.Bytes()
}

// greets reports whether the agent's initialize is among them.
func (d *debts) greets() bool {
	for _, o := range d.byID {
		if o.first {
			return true
		}
	}
	return false
}
