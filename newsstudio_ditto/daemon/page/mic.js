// Collects the microphone's samples into pieces of 0.1 s.

const PIECE = 1600;

class Microphone extends AudioWorkletProcessor {
  constructor() {
    super();
    this.piece = new Float32Array(PIECE);
    this.filled = 0;
  }

  process([input]) {
    for (const sample of input[0] ?? []) {
      this.piece[this.filled] = sample;
      this.filled += 1;
      if (this.filled === PIECE) {
        this.port.postMessage(this.piece.slice());
        this.filled = 0;
      }
    }
    return true;
  }
}

registerProcessor("microphone", Microphone);
