package bridge

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// keepBuffer is the largest line buffer that is kept for the next line. One big
// message must not hold its memory for the rest of a session.
const keepBuffer = 1 << 20

// A longLine is the error for a line above the limit. The line has been
// skipped; what was found in it is kept so that it can be answered.
type longLine struct {
	size int64
	id   []byte // raw JSON; nil if none was found
}

func (e *longLine) Error() string { return fmt.Sprintf("a line of %d bytes", e.size) }

// A lineReader reads lines of at most max bytes.
type lineReader struct {
	r   *bufio.Reader
	max int
	buf []byte
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), max: limit}
}

// next returns the next line without its end, which may be \n or \r\n. The
// slice is valid until the next call. The last line may lack its end: it comes
// with io.EOF. A line above the limit is skipped and a [*longLine] is returned.
func (l *lineReader) next() ([]byte, error) {
	if cap(l.buf) > keepBuffer {
		l.buf = nil
	}
	l.buf = l.buf[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if len(l.buf)+len(part) > l.max+len("\r\n") {
			return nil, l.skip(part, full)
		}
		l.buf = append(l.buf, part...)
		if full {
			continue
		}
		line := chop(l.buf)
		if len(line) > l.max {
			return nil, l.skip(nil, false)
		}
		return line, err
	}
}

// skip reads on to the end of a line that is too long, looking for its id.
func (l *lineReader) skip(part []byte, more bool) error {
	var scan idScanner
	long := &longLine{size: int64(len(l.buf) + len(part))}
	scan.write(l.buf)
	scan.write(part)
	for more {
		next, err := l.r.ReadSlice('\n')
		scan.write(next)
		long.size += int64(len(next))
		more = errors.Is(err, bufio.ErrBufferFull)
	}
	long.id = scan.ID()
	return long
}

func chop(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}
