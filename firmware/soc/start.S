/* From the first byte to main, for the boot ROM and for images that it loads: a stack, zeros for variables
 * without a first value. A trap that nobody handles stands still. */
  .section .text.start, "ax"
  .globl _start
_start:
  la sp, stack_end
  la t0, 4f
  csrw mtvec, t0
  la t0, bss_begin
  la t1, bss_end
1:
  bgeu t0, t1, 2f
  sw zero, 0(t0)
  addi t0, t0, 4
  j 1b
2:
  call main
  .balign 4
4:
  j 4b
