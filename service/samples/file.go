package samples

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/autosched/autosched/telemetry"
)

// A file is a row of frames: the length of the body and its CRC32C, both in 4 bytes with the least first, and the body,
// whose first byte says whether the payload behind it is compressed with zstd. Before a compressed payload of samples
// there is a frame of zstd that decoders skip, with the first and the last GPU of the payload.
const (
	headSize   = 8
	plain      = 0
	compressed = 1
	// maxFrame bounds the memory that a damaged length costs a reader, and maxPayload the content of a frame.
	maxFrame   = 16 << 20
	maxPayload = 256 << 20
	// worthIt is the size of a payload from which it is compressed.
	worthIt = 512
	// perFrame is the number of samples of a frame: few, so that those of a GPU are found without the others.
	perFrame = 1000
	// window is how much of a file is read at a time.
	window = 256 << 10

	skippable = 0x184D2A50 // the frame that decoders skip
	zstdMagic = 0xFD2FB528
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The coders are safe for concurrent use. Their errors are errors of options.
var (
	encoder, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	decoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPayload))
)

// appendFrames appends the frames of samples that are in order.
func appendFrames(dst []byte, all []telemetry.GPUSample) []byte {
	for part := range slices.Chunk(all, perFrame) {
		span := appendGPU(appendGPU(nil, part[0].GPU), part[len(part)-1].GPU)
		dst = frame(dst, encode(nil, part), span)
	}
	return dst
}

func appendGPU(dst []byte, g telemetry.GPU) []byte {
	dst = appendText(dst, g.Node)
	return binary.AppendVarint(binary.AppendVarint(dst, int64(g.Index)), int64(g.Instance))
}

func (r *reader) gpu() telemetry.GPU {
	return telemetry.GPU{Node: r.text(), Index: int(r.varint()), Instance: int(r.varint())}
}

// frame appends the frame of a payload, with the span of its GPUs unless that is empty.
func frame(dst, payload, span []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, headSize+1)...)
	if len(payload) < worthIt {
		dst = append(dst, payload...)
	} else {
		dst[start+headSize] = compressed
		if len(span) > 0 {
			dst = binary.LittleEndian.AppendUint32(dst, skippable)
			dst = append(binary.LittleEndian.AppendUint32(dst, uint32(len(span))), span...)
		}
		dst = encoder.EncodeAll(payload, dst)
	}
	body := dst[start+headSize:]
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(body)))
	binary.LittleEndian.PutUint32(dst[start+4:], crc32.Checksum(body, castagnoli))
	return dst
}

// spanOf returns the first and the last GPU of a frame, if it says so.
func spanOf(body []byte) (first, last telemetry.GPU, known bool) {
	if len(body) < 9 || body[0] != compressed || binary.LittleEndian.Uint32(body[1:]) != skippable {
		return first, last, false
	}
	r := reader{rest: body[9:]}
	r.rest = r.take(uint64(binary.LittleEndian.Uint32(body[5:])))
	first, last = r.gpu(), r.gpu()
	return first, last, !r.failed
}

// payloadOf returns the payload of a body, in the place of dst.
func payloadOf(dst, body []byte) ([]byte, error) {
	if body[0] == compressed {
		return decoder.DecodeAll(body[1:], dst[:0])
	}
	return append(dst[:0], body[1:]...), nil
}

// scanned is the result of a scan, in bytes: where the last frame ends, and the damaged parts before.
type scanned struct {
	end, damaged int64
	partial      bool // there is the frame partial
}

// scan calls visit with the bodies of the undamaged frames of a file and their places. After a damaged one it goes on
// with the next that is whole, so that damage costs no other frame.
func scan(file io.ReaderAt, visit func(at int64, body []byte) error) (s scanned, err error) {
	var base, buf []byte       // buf is a part of base
	at, all := int64(0), false // the place of buf, and whether it reaches the end
	fill := func(n int) bool {
		if len(buf) >= n || all {
			return len(buf) >= n
		}
		if n = max(n, window); len(base) < n {
			base = append(make([]byte, 0, n), buf...)[:n]
		} else {
			copy(base, buf)
		}
		got, readErr := file.ReadAt(base[len(buf):], at+int64(len(buf)))
		buf = base[:len(buf)+got]
		if all = readErr != nil; all && readErr != io.EOF {
			err = readErr
		}
		return len(buf) >= n
	}
	for fill(headSize + 5); len(buf) > headSize && err == nil; fill(headSize + 5) {
		size := int(binary.LittleEndian.Uint32(buf))
		whole := size > 0 && size <= maxFrame && begins(buf[headSize:], size) && fill(headSize+size)
		if !whole || crc32.Checksum(buf[headSize:headSize+size], castagnoli) != binary.LittleEndian.Uint32(buf[4:]) {
			buf, at = buf[1:], at+1
			continue
		}
		s.damaged += at - s.end
		if err := visit(at, buf[headSize:headSize+size:headSize+size]); err != nil {
			return s, err
		}
		buf, at = buf[headSize+size:], at+int64(headSize+size)
		s.end = at
	}
	return s, err
}

// begins reports whether a body of a size may begin so.
func begins(body []byte, size int) bool {
	if body[0] == plain {
		return size <= worthIt
	}
	if body[0] != compressed || len(body) < 5 {
		return false
	}
	magic := binary.LittleEndian.Uint32(body[1:])
	return magic == skippable || magic == zstdMagic
}

// scanFile scans a file. The error is that of the disk; there is none for a file that is missing.
func scanFile(path string, visit func(at int64, body []byte) error) (s scanned, size int64, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, 0, nil
	} else if err != nil {
		return s, 0, err
	}
	defer file.Close()
	if s, err = scan(file, visit); err != nil {
		return s, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return s, 0, err
	}
	return s, info.Size(), nil
}

// repair cuts off the rest of a frame that a crash left at the end of a log.
func repair(path string) error {
	s, size, err := scanFile(path, func(int64, []byte) error { return nil })
	if err != nil || size <= s.end {
		return err
	}
	return os.Truncate(path, s.end)
}

func compareGPU(a, b telemetry.GPU) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Instance, b.Instance))
}

// Order is that of samples within an hour: by GPU and time.
func Order(a, b *telemetry.GPUSample) int {
	return cmp.Or(compareGPU(a.GPU, b.GPU), cmp.Compare(a.Time, b.Time))
}

func order(a, b telemetry.GPUSample) int { return Order(&a, &b) }

// sorted puts samples in order and keeps the first one of a GPU at a time.
func sorted(all []telemetry.GPUSample) []telemetry.GPUSample {
	if !slices.IsSortedFunc(all, order) {
		slices.SortStableFunc(all, order)
	}
	return slices.CompactFunc(all, func(a, b telemetry.GPUSample) bool { return order(a, b) == 0 })
}
