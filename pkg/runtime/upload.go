package runtime

import "io"

// uploadStep is how many bytes of an upload pass between two reports.
const uploadStep = 4 << 20

// Upload returns a reader of r that reports how much has been read. It is for
// the engines' drivers. The total is unknown, since r is a stream.
func Upload(r io.Reader, progress Progress) io.Reader {
	if progress == nil {
		return r
	}
	return &upload{r: r, progress: progress}
}

type upload struct {
	r        io.Reader
	progress Progress
	done     int64
	told     int64
}

func (u *upload) Read(b []byte) (int, error) {
	n, err := u.r.Read(b)
	u.done += int64(n)
	if u.done-u.told >= uploadStep || err != nil && u.done != u.told {
		u.told = u.done
		u.progress("sending to the engine", u.done, 0)
	}
	return n, err
}
