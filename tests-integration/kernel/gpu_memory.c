// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Plays what amdgpu does for a limit: a region of memory for each board, and render nodes whose users fill it.
 *
 * A size that is written to a node, as 8G, is charged to the cgroup of the writer until the file is closed. At a limit,
 * the write fails with "out of memory", as hipMalloc does.
 */
#include <linux/cdev.h>
#include <linux/cgroup_dmem.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>

#define MOST_GPUS 8
#define LONGEST_SIZE 32
#define BYTES_OF_A_GPU (64ULL << 30)
/* Of the kernel's graphics drivers, which this kernel does not have. */
#define FIRST_NODE MKDEV(226, 128)

static char *addresses[MOST_GPUS];
static unsigned int gpus;
module_param_array(addresses, charp, &gpus, 0444);
MODULE_PARM_DESC(addresses, "The PCI addresses of the GPUs, in the order of their render nodes");

static struct dmem_cgroup_region *regions[MOST_GPUS];
static struct cdev nodes;

/* What one open file holds. */
struct buffers {
	spinlock_t lock;
	struct list_head list;
	struct dmem_cgroup_region *region;
};

struct buffer {
	struct list_head entry;
	struct dmem_cgroup_pool_state *pool;
	u64 size;
};

static int node_open(struct inode *inode, struct file *file)
{
	struct buffers *buffers = kzalloc(sizeof(*buffers), GFP_KERNEL);

	if (!buffers)
		return -ENOMEM;
	spin_lock_init(&buffers->lock);
	INIT_LIST_HEAD(&buffers->list);
	buffers->region = regions[inode->i_rdev - FIRST_NODE];
	file->private_data = buffers;
	return 0;
}

static int allocate(struct buffers *buffers, u64 size)
{
	struct dmem_cgroup_pool_state *full = NULL;
	struct buffer *buffer = kzalloc(sizeof(*buffer), GFP_KERNEL);
	int error;

	if (!buffer)
		return -ENOMEM;
	buffer->size = size;
	error = dmem_cgroup_try_charge(buffers->region, size, &buffer->pool, &full);
	if (error) {
		if (full)
			dmem_cgroup_pool_state_put(full);
		kfree(buffer);
		/* TTM turns it into this, once nothing is left to evict. */
		return error == -EAGAIN ? -ENOMEM : error;
	}
	spin_lock(&buffers->lock);
	list_add(&buffer->entry, &buffers->list);
	spin_unlock(&buffers->lock);
	return 0;
}

static ssize_t node_write(struct file *file, const char __user *from, size_t length, loff_t *position)
{
	char text[LONGEST_SIZE] = "";
	u64 size;
	int error;

	if (length >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, length))
		return -EFAULT;
	size = memparse(text, NULL);
	error = size ? allocate(file->private_data, size) : -EINVAL;
	return error ? error : length;
}

static int node_release(struct inode *inode, struct file *file)
{
	struct buffers *buffers = file->private_data;
	struct buffer *buffer, *next;

	list_for_each_entry_safe(buffer, next, &buffers->list, entry) {
		dmem_cgroup_uncharge(buffer->pool, buffer->size);
		kfree(buffer);
	}
	kfree(buffers);
	return 0;
}

static const struct file_operations node_operations = {
	.owner = THIS_MODULE,
	.open = node_open,
	.write = node_write,
	.release = node_release,
};

static void remove_regions(void)
{
	unsigned int gpu;

	for (gpu = 0; gpu < gpus; gpu++)
		if (regions[gpu])
			dmem_cgroup_unregister_region(regions[gpu]);
}

static int add_regions(void)
{
	const struct dmem_cgroup_init memory = { .size = BYTES_OF_A_GPU };
	unsigned int gpu;

	for (gpu = 0; gpu < gpus; gpu++) {
		struct dmem_cgroup_region *region = dmem_cgroup_register_region(&memory, "drm/%s/vram", addresses[gpu]);

		if (IS_ERR_OR_NULL(region))
			return region ? PTR_ERR(region) : -ENODEV;
		regions[gpu] = region;
	}
	return 0;
}

static int __init gpu_memory_init(void)
{
	int error = add_regions();

	if (!error)
		error = register_chrdev_region(FIRST_NODE, gpus, "gpu_memory");
	if (error)
		goto without_nodes;
	cdev_init(&nodes, &node_operations);
	error = cdev_add(&nodes, FIRST_NODE, gpus);
	if (!error)
		return 0;
	unregister_chrdev_region(FIRST_NODE, gpus);
without_nodes:
	remove_regions();
	return error;
}

static void __exit gpu_memory_exit(void)
{
	cdev_del(&nodes);
	unregister_chrdev_region(FIRST_NODE, gpus);
	remove_regions();
}

module_init(gpu_memory_init);
module_exit(gpu_memory_exit);
MODULE_DESCRIPTION("The memory of simulated GPUs, for tests of the dmem cgroup");
/* The kernel gives its controller to modules with the GPL alone. */
MODULE_LICENSE("GPL");
