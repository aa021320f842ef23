/** A recipient of log messages. `console` is one. */
export interface Logger {
  warn(message: string): void;
  error(message: string): void;
}
