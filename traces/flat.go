package traces

import (
	"bytes"

	"github.com/parquet-go/parquet-go"
)

// WriteRows writes a Parquet file of its own, which is no part of a trace: a table that was made from traces. T is a
// struct with parquet tags. The same rows give the same bytes. The file has mode 0600, and is there whole or not at
// all, after a crash too.
func WriteRows[T any](file string, rows []T) error {
	var b bytes.Buffer
	if err := parquet.Write(&b, rows, parquet.Compression(&parquet.Zstd)); err != nil {
		return err
	}
	return replaceFile(file, b.Bytes(), createFile)
}

// ReadRows reads a file that WriteRows wrote.
func ReadRows[T any](file string) ([]T, error) { return parquet.ReadFile[T](file) }
