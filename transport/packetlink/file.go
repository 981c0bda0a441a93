package packetlink

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// A File is a Keeper in a file, which it may not share. Records are on disk when the operating
// system writes them there; that the last are missing, the two sides of a Link find out.
type File struct {
	Path string

	file *os.File // that is appended to; nil before Replace
}

// maxRecord is more than any record takes, in bytes.
const maxRecord = 64 << 20

// Read implements Keeper.
func (f *File) Read() ([][]byte, error) {
	from, err := os.Open(f.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer from.Close()
	var records [][]byte
	for r := bufio.NewReader(from); ; {
		record, err := readRecord(r)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // the last is not whole
			return records, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		records = append(records, record)
	}
}

func readRecord(r *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	switch {
	case err != nil: // then n is part of a number
		return nil, err
	case n > maxRecord:
		return nil, fmt.Errorf("it holds a record of %d bytes", n)
	}
	record := make([]byte, n)
	_, err = io.ReadFull(r, record)
	return record, err
}

// Replace implements Keeper. The file is the old one or the new one, at any time.
func (f *File) Replace(records [][]byte) error {
	next, err := os.Create(f.Path + ".new")
	if err != nil {
		return err
	}
	if f.file != nil {
		_ = f.file.Close() // nothing of it is wanted any more
	}
	f.file = next
	for _, r := range records {
		err = errors.Join(err, f.Append(r))
	}
	if err != nil {
		return err
	}
	return os.Rename(next.Name(), f.Path)
}

// Append implements Keeper.
func (f *File) Append(record []byte) error {
	b := binary.AppendUvarint(make([]byte, 0, len(record)+binary.MaxVarintLen64), uint64(len(record)))
	_, err := f.file.Write(append(b, record...))
	return err
}

// Lost implements Keeper.
func (f *File) Lost() bool {
	is, err := os.Stat(f.Path)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	was, err := f.file.Stat()
	return err == nil && !os.SameFile(is, was)
}

// Close implements Keeper.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
