package samples

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/autosched/autosched/telemetry"
)

// A file is a row of frames: the length of the body and its CRC32C, both in 4 bytes with the least first, and the body,
// whose first byte says whether the payload behind it is compressed with zstd.
const (
	headSize   = 8
	plain      = 0
	compressed = 1
	// maxFrame bounds the memory that a damaged length costs a reader, and maxPayload the content of a frame.
	maxFrame   = 64 << 20
	maxPayload = 256 << 20
	// worthIt is the size of a payload from which it is compressed.
	worthIt = 512
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The coders are safe for concurrent use. Their errors are errors of options.
var (
	encoder, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	decoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPayload))
)

// appendFrame appends the frame of samples that are in order.
func appendFrame(dst []byte, all []telemetry.GPUSample) []byte { return frame(dst, encode(nil, all)) }

// frame appends the frame of a payload.
func frame(dst, payload []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, headSize+1)...)
	if len(payload) < worthIt {
		dst = append(dst, payload...)
	} else {
		dst[start+headSize] = compressed
		dst = encoder.EncodeAll(payload, dst)
	}
	body := dst[start+headSize:]
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(body)))
	binary.LittleEndian.PutUint32(dst[start+4:], crc32.Checksum(body, castagnoli))
	return dst
}

// ErrDamaged is the error of Read about a file that differs from the written one.
var ErrDamaged = errors.New("damaged")

// scan calls f with the payload of each frame, and returns the length of the whole ones before the first damage.
func scan(path string, f func(payload []byte) error) (whole int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var head [headSize]byte
	var body, payload []byte
	for {
		if _, err := io.ReadFull(file, head[:]); err == io.EOF {
			return whole, nil
		} else if errors.Is(err, io.ErrUnexpectedEOF) {
			return whole, fmt.Errorf("%s at %d: %w", path, whole, ErrDamaged)
		} else if err != nil {
			return whole, err
		}
		size := binary.LittleEndian.Uint32(head[:])
		if size == 0 || size > maxFrame {
			return whole, fmt.Errorf("%s at %d: %w", path, whole, ErrDamaged)
		}
		body = slices.Grow(body[:0], int(size))[:size]
		if _, err := io.ReadFull(file, body); errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
			return whole, fmt.Errorf("%s at %d: %w", path, whole, ErrDamaged)
		} else if err != nil {
			return whole, err
		}
		if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
			return whole, fmt.Errorf("%s at %d: %w", path, whole, ErrDamaged)
		}
		payload = append(payload[:0], body[1:]...)
		if body[0] == compressed {
			if payload, err = decoder.DecodeAll(body[1:], payload[:0]); err != nil {
				return whole, fmt.Errorf("%s at %d: %w: %w", path, whole, ErrDamaged, err)
			}
		}
		if err := f(payload); err != nil {
			if errors.Is(err, errPayload) {
				err = fmt.Errorf("%s at %d: %w: %w", path, whole, ErrDamaged, err)
			}
			return whole, err
		}
		whole += headSize + int64(size)
	}
}

// repair cuts off the rest of a frame that a crash left at the end of a log, and returns how many bytes.
func repair(path string) (cut int64, err error) {
	whole, err := scan(path, func([]byte) error { return nil })
	if !errors.Is(err, ErrDamaged) {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size() - whole, os.Truncate(path, whole)
}

// Order is that of samples within an hour: by GPU and time.
func Order(a, b *telemetry.GPUSample) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Instance, b.Instance),
		cmp.Compare(a.Time, b.Time))
}

func order(a, b telemetry.GPUSample) int { return Order(&a, &b) }

// sorted puts samples in order and keeps the first one of a GPU at a time.
func sorted(all []telemetry.GPUSample) []telemetry.GPUSample {
	if !slices.IsSortedFunc(all, order) {
		slices.SortStableFunc(all, order)
	}
	return slices.CompactFunc(all, func(a, b telemetry.GPUSample) bool { return order(a, b) == 0 })
}
