#!/usr/bin/env python3
"""Writes the files of this directory with the real tools: gzip, bzip2, zstd, lz4, pigz-like members, and for the block
framing of Hadoop's BlockCompressorStream raw blocks of cramjam (pip install cramjam), framed as Hadoop does it.

The plain text is lines `i,line i,<i * i % 9973>` for i in 0..3000, the same that the tests compute."""
import struct, subprocess, zlib
import cramjam

lines = [f"{i},line {i},{i * i % 9973}\n" for i in range(3000)]
text = "".join(lines).encode()
first, second = "".join(lines[:1000]).encode(), "".join(lines[1000:]).encode()

def tool(command, data):
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout

def write(name, data):
    open(name, "wb").write(data)

write("one.gz", tool(["gzip", "-9nc"], text))
write("members.gz", tool(["gzip", "-nc"], first) + tool(["gzip", "-nc"], b"") + tool(["gzip", "-1nc"], second))
write("padded.gz", tool(["gzip", "-nc"], text) + bytes(1000))
write("one.bz2", tool(["bzip2", "-c"], text))
write("streams.bz2", tool(["bzip2", "-c"], first) + tool(["bzip2", "-1c"], second))
write("one.zst", tool(["zstd", "-qc"], text))
write("frames.zst", tool(["zstd", "-qc"], first) + b"\x53\x2a\x4d\x18\x03\0\0\0abc" + tool(["zstd", "-19qc"], second))
write("one.lz4", tool(["lz4", "-qc"], text))
write("frames.lz4", tool(["lz4", "-qc", "-B4", "-BD"], first) + b"\x53\x2a\x4d\x18\x03\0\0\0abc" + tool(["lz4", "-9qc", "-BX"], second))
write("legacy.lz4", tool(["lz4", "-lqc"], text))
write("one.zlib.deflate", zlib.compress(text))
raw = zlib.compressobj(6, zlib.DEFLATED, -15)
write("one.raw.deflate", raw.compress(text) + raw.flush())
write("framed.snappy", bytes(cramjam.snappy.compress(text)))

def hadoop(compress, chunk):
    """Two writes; the first in one chunk, the second block in several."""
    out = b""
    for block in (first, b"", second):
        out += struct.pack(">I", len(block))
        step = len(block) if block is first else chunk
        for at in range(0, len(block), step or 1):
            data = bytes(compress(block[at:at + step]))
            out += struct.pack(">I", len(data)) + data
    return out

write("hadoop.snappy", hadoop(cramjam.snappy.compress_raw, 10000))
write("hadoop.lz4", hadoop(lambda data: cramjam.lz4.compress_block(data, store_size=False), 7000))
