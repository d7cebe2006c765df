package bridge

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	_ "image/gif"  // for image.DecodeConfig
	_ "image/jpeg" // likewise
	_ "image/png"  // likewise

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/sandbox"
)

const (
	maxRich      = 16      // pictures and sounds in a result
	maxRichBytes = 4 << 20 // of all of them, before base64: agents refuse more

	// maxEdge is what models take, in pixels. The harness scales to less; this
	// is for sandboxes that forge frames.
	maxEdge = 8000
)

// sounds are the types that clients can play, and how data of each begins.
var sounds = map[string]string{"audio/wav": "RIFF", "audio/mpeg": "", "audio/ogg": "OggS", "audio/flac": "fLaC"}

// rich turns pictures and sounds into content, and says what it left out.
func (v view) rich(shown []sandbox.Rich) (content []mcp.Content, left []string) {
	size := 0
	for i, r := range shown {
		if len(content) == maxRich {
			left = append(left, fmt.Sprintf("%d pictures were left out: a result has at most %d", len(shown)-i, maxRich))
			break
		}
		if size+len(r.Data) > maxRichBytes {
			left = append(left, fmt.Sprintf("%s of %d bytes was left out: a result has at most %d bytes of pictures; draw it smaller or with a lower dpi", brief(r.MIME), len(r.Data), maxRichBytes))
			continue
		}
		block, why := v.block(r)
		if why != "" {
			left = append(left, fmt.Sprintf("%s of %d bytes was left out: %s", brief(r.MIME), len(r.Data), why))
			continue
		}
		size += len(r.Data)
		content = append(content, block)
	}
	return content, left
}

// block makes content of r, or says why clients can't take it.
func (v view) block(r sandbox.Rich) (block mcp.Content, why string) {
	data := base64.StdEncoding.EncodeToString
	if start, ok := sounds[r.MIME]; ok && bytes.HasPrefix(r.Data, []byte(start)) {
		if !v.audio {
			return nil, "this client's version of MCP has no sounds"
		}
		return mcp.NewAudioContent(data(r.Data), r.MIME), ""
	}
	mime, width, height := picture(r.Data)
	switch {
	case mime == "":
		return nil, "agents can't show it"
	case max(width, height) > maxEdge:
		return nil, fmt.Sprintf("%dx%d pixels are more than the %d that models take", width, height, maxEdge)
	}
	return mcp.NewImageContent(data(r.Data), mime), ""
}

// picture returns the type and size of a picture by its data, "" if it is none.
// What a sandbox says of its pictures counts for nothing: one that is not what
// it is called, or broken, makes models' providers refuse the whole conversation.
func picture(data []byte) (mime string, width, height int) {
	if webp(data) {
		return "image/webp", 0, 0
	}
	c, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || c.Width == 0 || c.Height == 0 || !whole(format, data) {
		return "", 0, 0
	}
	return "image/" + format, c.Width, c.Height
}

// maxTrailer is how far before the end of a picture its last mark may be.
const maxTrailer = 64

// whole reports whether nothing of a picture is missing. A PNG also shows
// whether it is damaged.
func whole(format string, data []byte) bool {
	end := data[len(data)-min(len(data), maxTrailer):]
	switch format {
	case "png":
		return chunks(data[8:])
	case "jpeg":
		return bytes.Contains(end, []byte{0xff, 0xd9})
	}
	return bytes.Contains(end, []byte{';'})
}

// chunks reports whether those of a PNG are as they were written, up to the last.
func chunks(data []byte) bool {
	const frame = 12 // length, type and checksum
	for len(data) >= frame {
		size := int64(binary.BigEndian.Uint32(data))
		if size > int64(len(data)-frame) {
			return false
		}
		body, rest := data[4:8+size], data[8+size:]
		if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(rest) {
			return false
		}
		if string(body[:4]) == "IEND" {
			return true
		}
		data = rest[4:]
	}
	return false
}

// webp reports whether data is a WebP as long as it says.
func webp(data []byte) bool {
	return len(data) >= 30 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP" &&
		int64(binary.LittleEndian.Uint32(data[4:]))+8 <= int64(len(data))
}
