// The drawing state that both vector contexts begin with, as a canvas does.

export class VectorContext {
  isVector = true;
  fillStyle = "#000000";
  strokeStyle = "#000000";
  lineWidth = 1;
  globalAlpha = 1;
  font = "";
  textAlign = "left";
  textBaseline = "middle";
}
