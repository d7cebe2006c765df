package bridge

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/sandbox"
)

// encoded returns a black picture.
func encoded(format string, width, height int) []byte {
	img := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.Black, color.White})
	var b bytes.Buffer
	var err error
	switch format {
	case "png":
		err = png.Encode(&b, img)
	case "jpeg":
		err = jpeg.Encode(&b, img, nil)
	case "gif":
		err = gif.Encode(&b, img, nil)
	case "webp":
		b.WriteString("RIFF\x16\x00\x00\x00WEBPVP8L\x0a\x00\x00\x00\x2f\x01\x40\x00" + strings.Repeat("\x00", 8))
	default:
		err = fmt.Errorf("no format %s", format)
	}
	if err != nil {
		panic(err) // the test's own mistake
	}
	return b.Bytes()
}

func TestPicturesAreWhatTheyAreCalled(t *testing.T) {
	for _, tt := range []struct {
		name string
		rich sandbox.Rich
		want string // the block's type, or part of why there is none
	}{
		{"a PNG", sandbox.Rich{MIME: "image/png", Data: encoded("png", 3, 2)}, "image/png"},
		{"a JPEG", sandbox.Rich{MIME: "image/jpeg", Data: encoded("jpeg", 3, 2)}, "image/jpeg"},
		{"a GIF", sandbox.Rich{MIME: "image/gif", Data: encoded("gif", 3, 2)}, "image/gif"},
		{"a WebP", sandbox.Rich{MIME: "image/webp", Data: encoded("webp", 3, 2)}, "image/webp"},
		{"a JPEG that is called a PNG", sandbox.Rich{MIME: "image/png", Data: encoded("jpeg", 3, 2)}, "image/jpeg"},
		{"a PNG that is broken off", sandbox.Rich{MIME: "image/png", Data: encoded("png", 300, 200)[:60]}, "agents can't show it"},
		{"a PNG that is damaged", sandbox.Rich{MIME: "image/png", Data: bytes.Replace(encoded("png", 300, 200), []byte("IDAT"), []byte("IDOT"), 1)}, "agents can't show it"},
		{"a PNG whose chunk is longer than all of it", sandbox.Rich{MIME: "image/png", Data: bytes.Replace(encoded("png", 1, 1), []byte("\x00\x0eIDAT"), []byte("\xff\x0eIDAT"), 1)}, "agents can't show it"},
		{"a JPEG that is broken off", sandbox.Rich{MIME: "image/jpeg", Data: encoded("jpeg", 300, 200)[:700]}, "agents can't show it"},
		{"a WebP that is broken off", sandbox.Rich{MIME: "image/webp", Data: encoded("webp", 1, 1)[:29]}, "agents can't show it"},
		{"nothing", sandbox.Rich{MIME: "image/png"}, "agents can't show it"},
		{"words", sandbox.Rich{MIME: "image/png", Data: []byte("no picture")}, "agents can't show it"},
		{"too many pixels", sandbox.Rich{MIME: "image/png", Data: encoded("png", 8001, 1)}, "8001x1 pixels are more than the 8000"},
		{"a sound", sandbox.Rich{MIME: "audio/ogg", Data: []byte("OggS...")}, "audio/ogg"},
		{"a sound that is none", sandbox.Rich{MIME: "audio/wav", Data: []byte("OggS...")}, "agents can't show it"},
		{"HTML", sandbox.Rich{MIME: "text/html", Data: []byte("<p>")}, "agents can't show it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := shown(t, newest.result(sandbox.Result{Status: "ok", Rich: []sandbox.Rich{tt.rich}}))
			if len(got) != 1 || !strings.Contains(got[0], tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPicturesHaveALimit(t *testing.T) {
	big := sandbox.Rich{MIME: "image/gif", Data: encoded("gif", 1, 1)}
	big.Data = append(big.Data[:len(big.Data)-1], make([]byte, 3<<20-len(big.Data))...)
	big.Data = append(big.Data, ';')
	got := shown(t, newest.result(sandbox.Result{Status: "ok", Rich: []sandbox.Rich{big, big, {MIME: "image/gif", Data: encoded("gif", 1, 1)}}}))
	want := []string{"image/gif", "image/gif",
		"[bridged] image/gif of 3145728 bytes was left out: a result has at most 4194304 bytes of pictures; draw it smaller or with a lower dpi"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	many := make([]sandbox.Rich, 20)
	for i := range many {
		many[i] = sandbox.Rich{MIME: "image/png", Data: encoded("png", 1, 1)}
	}
	if got := shown(t, newest.result(sandbox.Result{Status: "ok", Rich: many})); len(got) != maxRich+1 || !strings.HasPrefix(got[maxRich], "[bridged] 4 pictures were left out") {
		t.Errorf("got %q", got)
	}
}

// No data of a sandbox's makes the look at it fail, and what passes has a size
// that another look finds too.
func FuzzPicture(f *testing.F) {
	for _, format := range []string{"png", "jpeg", "gif", "webp"} {
		f.Add(encoded(format, 3, 2))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		mime, width, height := picture(data)
		if mime == "" || mime == "image/webp" {
			return
		}
		c, format, err := image.DecodeConfig(bytes.NewReader(data))
		if err != nil || "image/"+format != mime || c.Width != width || c.Height != height {
			t.Errorf("got %s of %dx%d, want %s of %dx%d, %v", mime, width, height, format, c.Width, c.Height, err)
		}
	})
}
