"""The hot path: packet slices and motion in, I420 frames out. Opens no file and knows no FFmpeg."""
