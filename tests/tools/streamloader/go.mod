module dipper.test/streamloader

go 1.21

require github.com/pierrec/lz4/v4 v4.1.21
