package proxy

import (
	"bufio"
	"errors"
	"io"
	"slices"
)

// lineBuffer is what is read from a server at once; longer lines grow.
const lineBuffer = 64 << 10

// A lineReader reads lines of any length and keeps at most max bytes of one.
type lineReader struct {
	r   *bufio.Reader
	max int
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, lineBuffer), max: limit}
}

// next returns the next line without its newline; the caller owns it. Of a line
// longer than max it returns nothing but the head, which tells whose answer the
// line would have been, with the error errTooLarge; the next call goes on
// behind it. The last line of a stream needs no newline.
func (l *lineReader) next() (line []byte, head *header, err error) {
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > l.max+1 {
			return l.skip(line, part, err)
		}
		if len(line)+len(part) > cap(line) && len(line) > 0 {
			line = slices.Grow(line, max(len(line), len(part))) // append alone grows large slices by a quarter
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil, nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil, nil
		}
		return nil, nil, err
	}
}

// skip reads to the end of a line that is too long and scans it on the way.
func (l *lineReader) skip(line, part []byte, err error) ([]byte, *header, error) {
	s := &scanner{}
	s.scan(line)
	for {
		s.scan(part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
		part, err = l.r.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	return nil, &s.header, errTooLarge
}
