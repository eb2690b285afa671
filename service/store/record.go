package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrCorrupt matches every *CorruptError.
var ErrCorrupt = errors.New("record is corrupt")

// CorruptError is the error of a damaged record or file.
type CorruptError struct {
	File   string // within the directory
	Bucket string
	Key    string // as text, or hexadecimal
	Why    string
	free   bool // of the list of free pages, and of nothing else
}

func (e *CorruptError) Error() string {
	where := e.File
	if e.Bucket != "" {
		where += ", bucket " + e.Bucket
	}
	if e.Key != "" {
		where += ", key " + e.Key
	}
	return fmt.Sprintf("%s: %v: %s", where, ErrCorrupt, e.Why)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// A record is a CRC32C (Castagnoli, little endian) of key, schema and payload, a schema byte, and the payload. bbolt
// checks its meta pages only, so that no other check finds a flipped bit in a value. The sum covers the key, too:
// otherwise a misplaced page would pass.
const (
	recordHeader = 5
	recordSchema = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(key, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, body)
}

// appendRecord appends a record, whose payload the function appends.
func appendRecord(dst, key []byte, payload func([]byte) []byte) []byte {
	return appendVersioned(dst, key, recordSchema, payload)
}

func appendVersioned(dst, key []byte, schema byte, payload func([]byte) []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, schema)
	dst = payload(dst)
	binary.LittleEndian.PutUint32(dst[start:], checksum(key, dst[start+4:]))
	return dst
}

// openRecord returns the payload of a record, or an error if it is corrupt.
func openRecord(key, record []byte) ([]byte, error) {
	schema, payload, err := openVersioned(key, record)
	if err == nil && schema != recordSchema {
		err = fmt.Errorf("its schema %d is not known", schema)
	}
	return payload, err
}

// openVersioned returns the schema byte and the payload of a record, or an error if it is corrupt.
func openVersioned(key, record []byte) (schema byte, payload []byte, err error) {
	if len(record) < recordHeader {
		return 0, nil, fmt.Errorf("%d bytes is too short", len(record))
	}
	if got, want := checksum(key, record[4:]), binary.LittleEndian.Uint32(record); got != want {
		return 0, nil, fmt.Errorf("its CRC32C is %08x, recorded is %08x", got, want)
	}
	return record[4], record[recordHeader:], nil
}
