import { Component, type ComponentChild, type FunctionComponent, h } from "preact";

/** A component that is drawn again only when one of its properties is another, or its own state or signals. */
export function memo<P extends object>(view: (props: P) => ComponentChild) {
  return class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      return (Object.keys(next) as (keyof P)[]).some((name) => next[name] !== this.props[name]);
    }
    override render(): ComponentChild {
      return h(view as FunctionComponent<P>, this.props);
    }
  };
}
