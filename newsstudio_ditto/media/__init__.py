"""Reading anchors and speech, and writing the finished video. FFmpeg is met here and nowhere else."""
